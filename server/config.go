package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
)

// Config is what a control plane needs. Its zero value lacks only DataDir.
type Config struct {
	// DataDir holds the database, the keys and the kubeconfig; it is made with mode 0700 where it does not exist.
	DataDir string
	// Listen is the address of the API: "127.0.0.1:6443" where it is empty; port 0 takes any free one.
	Listen string
	// Hosts are more names and addresses under which clients reach the server: they go into its certificate and into the
	// list of Host headers that it answers to.
	Hosts []string
	// ImageQuota is what the images that are pushed to a namespace may take together, in bytes; 0 takes the registry's default.
	ImageQuota int64
	// Log is where the server says what happens; nil discards it.
	Log *slog.Logger
}

func (c *Config) validate() error {
	if c.DataDir == "" {
		return errors.New("the data folder is not named")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("data folder %s: %w", c.DataDir, err)
	}
	c.DataDir = dir
	if c.Listen == "" {
		c.Listen = "127.0.0.1:6443"
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen address %q is not HOST:PORT: %w", c.Listen, err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// makeDataDir makes the folder for its owner alone, and tells a folder that cannot be written in words a user can act on.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data folder %s cannot be made: %w (choose another with --data-dir)", dir, err)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("data folder %s is not writable: %w (choose another with --data-dir)", dir, err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}
