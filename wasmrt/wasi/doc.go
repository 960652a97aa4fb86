// Package wasi is the guest's system calls: wasi_snapshot_preview1, and wasi_unstable as a layer over it.
//
// How a container uses it:
//
//	tree, err := fs.New(fs.Config{Root: folder, Mounts: []fs.Mount{{Source: vol, Target: "/data"}}})
//	host, err := wasi.New(wasi.Config{Args: args, Env: env, Stdout: log, Stderr: log, FS: tree})
//	defer host.Close() // after the guest has ended; closes tree too
//
//	functions, err := host.Functions(module.Imports()) // *UnknownImportError
//	guest, err := module.Link(ctx, functions)          // package engine
//	err = guest.Start(ctx)
//	_, err = guest.Call(ctx, "_start")
//	code, stopped, err := wasi.ExitCode(err) // nil and *ExitError give a code; anything else is a trap and stays an error
//
// Stop may be called from any goroutine. A guest that has not asked to see stop requests ends with an *ExitError of code
// 143 at its next host call, or at once if it is blocked in one. A guest that computes without host calls is not reached:
// kill its process. With Config.StopDescriptor a guest can see requests, and is left alone then:
//
//	fd = atoi(getenv("EDGEPOD_STOP_FD")); poll for reading, or read: it is at its end when the container is to stop
//
// A guest's memory and its Host belong to one guest: its host functions run on the goroutine that called the guest, and
// Stop alone may run beside them.
package wasi
