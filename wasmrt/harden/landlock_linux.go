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
		landlock.V9, landlock.V10, landlock.V11,
	}
	config := configs[min(abi, len(configs))-1]
	var rules []landlock.Rule
	if o.Sockets && o.Jail != "" {
		rules = append(rules, socketFolder(o.Jail, abi))
	}
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

// socketFolder is the rule for a folder of Unix sockets. From the ninth version on, those of other folders can't be
// reached; before, it is the jail that keeps their names out.
func socketFolder(path string, abi int) landlock.Rule {
	const resolvesUnix = 9
	if abi >= resolvesUnix {
		return landlock.RWDirs(path).WithResolveUnix()
	}
	return landlock.RWDirs(path)
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
