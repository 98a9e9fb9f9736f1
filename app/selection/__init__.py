"""The language of selection: expressions that choose nodes."""
