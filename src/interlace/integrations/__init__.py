"""Indexes of other libraries (``faiss``), and adapters for frameworks: import ``langchain``, ``llama_index`` or
``haystack`` from here where the framework is installed."""
