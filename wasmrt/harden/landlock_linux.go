package harden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// restrictPaths leaves no file to be opened but those in o, and no TCP port: strictly as much as this kernel can, nothing
// being dropped silently.
func restrictPaths(o Options) error {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil || abi < 1 {
		return errors.New("the kernel has no Landlock, or it is switched off")
	}
	configs := []landlock.Config{
		landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8,
	}
	config := configs[min(abi, len(configs))-1]
	var rules []landlock.Rule
	for _, p := range o.Writable {
		rule, err := writable(p, abi)
		if err != nil {
			return err
		}
		rules = append(rules, rule)
	}
	for _, p := range o.ReadOnly {
		isDir, err := isFolder(p)
		if err != nil {
			return err
		}
		if isDir {
			rules = append(rules, landlock.RODirs(p))
			continue
		}
		rules = append(rules, landlock.ROFiles(p))
	}
	if err := config.Restrict(rules...); err != nil {
		return fmt.Errorf("restrict paths: %w", err)
	}
	return nil
}

// writable is a rule for a folder or file; from the second version on, files may be moved between its folders.
func writable(path string, abi int) (landlock.Rule, error) {
	isDir, err := isFolder(path)
	if err != nil {
		return nil, err
	}
	const refers = 2
	switch {
	case !isDir:
		return landlock.RWFiles(path), nil
	case abi >= refers:
		return landlock.RWDirs(path).WithRefer(), nil
	default:
		return landlock.RWDirs(path), nil
	}
}

func isFolder(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("restrict paths: %w", err)
	}
	return info.Mode()&fs.ModeDir != 0, nil
}
