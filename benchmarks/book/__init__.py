"""The experiments of chapter 7: which runs there are, how one is made and read, what their seeds say together."""
