package wasi

// preview1 lists wasi_snapshot_preview1.
func preview1() []function {
	return []function{
		{name: "proc_exit", params: "i", run: (*Host).procExit, noResult: true},
	}
}
