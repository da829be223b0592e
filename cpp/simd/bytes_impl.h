// Products of bytes, one word after the other: for levels without an instruction for them. Compilers make vectors of
// the loop over the words. Include inside the level's own anonymous namespace.
void byte_bounds(const ByteQuery* queries, std::size_t n, const std::uint8_t* words, std::size_t width,
                 const float* squares) {
    for (std::size_t first = 0; first < kWords; first += kByteWords, words += kByteWords * width)
        for (std::size_t q = 0; q < n; ++q) {
            const ByteQuery& query = queries[q];
            std::int32_t sums[kByteWords] = {};
            for (std::size_t d = 0; d < width; d += 4)
                for (std::size_t w = 0; w < kByteWords; ++w)
                    for (std::size_t i = 0; i < 4; ++i) sums[w] += query.x[d + i] * words[d * kByteWords + w * 4 + i];
            for (std::size_t w = 0; w < kByteWords; ++w)
                query.out[first + w] =
                    query.start + (squares[first + w] - query.scale * static_cast<float>(sums[w] - query.shift));
        }
}
