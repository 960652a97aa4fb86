// Package wasi is the guest's system calls: wasi_snapshot_preview1, and wasi_unstable as a layer over it.
//
// How a container uses it:
//
//	tree, err := fs.New(fs.Config{Root: folder, Mounts: []fs.Mount{{Source: vol, Target: "/data"}}})
//	host, err := wasi.New(wasi.Config{Args: args, Env: env, Stdout: log, Stderr: log, FS: tree})
//	defer host.Close() // after the guest has ended; closes tree too
//
//	guest, err := host.Link(ctx, module) // of package engine; *UnknownImportError
//	err = guest.Start(ctx)
//	_, err = guest.Call(ctx, "_start")
//	code, stopped, err := wasi.ExitCode(err) // nil and *ExitError give a code; anything else is a trap and stays an error
//
// The descriptors that a guest starts with:
//
//	0 1 2    standard input and outputs
//	3 ...    its folders, Config.Preopens: "/" alone where nothing else was asked for
//	...      its listeners, Config.Listeners, in their order. The first has the number in EDGEPOD_LISTEN_FD; LISTEN_FDS tells
//	         how many there are, LISTEN_FDNAMES their names, with colons between, "unknown" for one without a name
//	last     the stop descriptor, Config.StopDescriptor. Its number is in EDGEPOD_STOP_FD
//
// Sockets are made from Config.Net: by preview 1 on the listeners, and by WasmEdge's extension of preview 1, whose two
// versions are told apart import by import.
//
// Stop may be called from any goroutine. A guest that has not asked to see stop requests ends with an *ExitError of code
// 143 at its next host call, or at once if it is blocked in one. A guest that computes without host calls is not reached:
// kill its process. With Config.StopDescriptor a guest can see requests, and is left alone then:
//
//	fd = atoi(getenv("EDGEPOD_STOP_FD")); poll for reading, or read: it is at its end when the container is to stop
//
// So is, with Config.StdinOpen, the standard input of a guest that has polled or read it.
//
// A guest's memory and its Host belong to one guest: its host functions run on the goroutine that called the guest, and
// Stop alone may run beside them.
package wasi
