// Package fs is a guest's file tree: a root and mounts, reached beneath descriptors of the host.
//
// A Tree is made once per container by New from host folders and files, before the process gives up its rights to open
// paths; afterwards nothing is opened by an absolute path of the host again. Every operation takes a *Dir and a path of
// the guest, which is resolved here, name by name:
//
//	path "a/b/link/c"        Dir ──a──► position ──b──► position ──link──► readlink, its names go first ──c──► operation
//	                                     │
//	                                     ├ a name that is a mount point continues in the mount
//	                                     └ ".." goes back along the names walked, and never above the start
//
// The kernel sees either one name with O_NOFOLLOW, or a run of names with openat2(RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS),
// so whoever swaps a folder for a symbolic link meanwhile gains nothing: links are followed in this package alone,
// within the guest's tree. The target of an absolute link is looked up from the root of the guest's tree.
//
// Mounts may be nested and show up in the folder above them, whether or not the folder beneath has such a name. A mount
// point and the folders above it cannot be removed, renamed or replaced (Busy); nothing is moved or linked from one mount
// to another (XDev); a read-only mount refuses every change (ROFS), whatever the flags.
//
// Errors are of type Errno, the numbers of WASI preview 1.
package fs
