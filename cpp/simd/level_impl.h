// The functions of a level as one table: every level has its own, by the same names.
// Include last inside the level's own anonymous namespace.
constexpr Kernels level(const char* name) {
    return {.name = name,
            .squared_distances = squared_distances,
            .inner_products = inner_products,
            .rotate = rotate,
            .to_steps = to_steps,
            .add_rows = add_rows,
            .below = below,
            .add_terms = add_terms,
            .min_steps = min_steps,
            .add_steps = add_steps,
            .quantize_steps = quantize_steps,
            .square_of_sum = square_of_sum,
            .minima = minima,
            .max_abs = max_abs,
            .argmin = argmin,
            .quantize = quantize,
            .scan = scan};
}
