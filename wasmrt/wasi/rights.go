//go:build linux

package wasi

import "edgepod/wasmrt/fs"

// rights are what a descriptor may be used for.
type rights uint64

// The rights of preview 1.
const (
	rightFDDatasync rights = 1 << iota
	rightFDRead
	rightFDSeek
	rightFDFdstatSetFlags
	rightFDSync
	rightFDTell
	rightFDWrite
	rightFDAdvise
	rightFDAllocate
	rightPathCreateDirectory
	rightPathCreateFile
	rightPathLinkSource
	rightPathLinkTarget
	rightPathOpen
	rightFDReaddir
	rightPathReadlink
	rightPathRenameSource
	rightPathRenameTarget
	rightPathFilestatGet
	rightPathFilestatSetSize
	rightPathFilestatSetTimes
	rightFDFilestatGet
	rightFDFilestatSetSize
	rightFDFilestatSetTimes
	rightPathSymlink
	rightPathRemoveDirectory
	rightPathUnlinkFile
	rightPollFDReadwrite
	rightSockShutdown
	rightSockAccept
)

// What applies to a kind of descriptor. A right that does not apply is dropped when one is opened.
const (
	fileRights = rightFDDatasync | rightFDRead | rightFDSeek | rightFDFdstatSetFlags | rightFDSync | rightFDTell |
		rightFDWrite | rightFDAdvise | rightFDAllocate | rightFDFilestatGet | rightFDFilestatSetSize |
		rightFDFilestatSetTimes | rightPollFDReadwrite
	// writeRights need a file that is open for writing.
	writeRights = rightFDWrite | rightFDAllocate | rightFDFilestatSetSize

	dirRights = rightFDFdstatSetFlags | rightFDSync | rightFDDatasync | rightFDAdvise | rightPathCreateDirectory |
		rightPathCreateFile | rightPathLinkSource | rightPathLinkTarget | rightPathOpen | rightFDReaddir |
		rightPathReadlink | rightPathRenameSource | rightPathRenameTarget | rightPathFilestatGet |
		rightPathFilestatSetSize | rightPathFilestatSetTimes | rightFDFilestatGet | rightFDFilestatSetTimes |
		rightPathSymlink | rightPathRemoveDirectory | rightPathUnlinkFile
	// dirInheriting are the rights that something opened in a folder can have.
	dirInheriting = dirRights | fileRights

	streamRights = rightFDFdstatSetFlags | rightFDFilestatGet | rightPollFDReadwrite
	inputRights  = streamRights | rightFDRead
	outputRights = streamRights | rightFDWrite
)

// need returns nil when the descriptor has the rights r, and otherwise what a program that knows POSIX expects: a folder
// is no file, a stream has no position, a descriptor not open for reading is bad for that.
func (d *descriptor) need(r rights) error {
	if d.base&r == r {
		return nil
	}
	lacking := r &^ d.base
	isDir := d.object.fileType() == fs.TypeDirectory
	switch {
	case isDir && lacking&(rightFDRead|rightFDWrite) != 0:
		return fs.IsDir
	case isDir && lacking&(fileRights&^dirRights) != 0:
		return fs.BadF
	case lacking&dirRights&^fileRights != 0 && !isDir:
		return fs.NotDir
	case lacking&(rightFDRead|rightFDWrite) != 0:
		return fs.BadF
	case lacking&writeRights != 0 && d.base&rightFDWrite == 0 && !d.isStream():
		return fs.BadF
	case d.isStream() && lacking&(rightFDSeek|rightFDTell|rightFDAdvise|rightFDAllocate) != 0:
		return fs.SPipe
	case d.isStream() && lacking&^(rightFDSync|rightFDDatasync|rightFDFilestatSetSize) == 0:
		return fs.Inval
	}
	return fs.NotCapable
}
