package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"edgepod/server"
)

// clusterOptions are what a cluster is made from; the fields are those of the flags.
type clusterOptions struct {
	dataDir   string
	listen    string
	hosts     []string
	quota     byteSize
	nodeName  string
	nodeIP    string
	hostPaths []string
	images    imageOptions
}

func addServerFlags(f *pflag.FlagSet, o *clusterOptions) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:6443", "address of the API; port 0 takes a free one")
	f.StringSliceVar(&o.hosts, "host", nil, "another name or address under which clients reach the API, for its certificate")
	f.Var(&o.quota, "registry-quota", "what the images pushed to a namespace may take together, such as 500Mi (default 2Gi)")
}

// serverConfig returns the settings of the control plane.
func (o *clusterOptions) serverConfig(log *slog.Logger) server.Config {
	return server.Config{DataDir: o.dataDir, Listen: o.listen, Hosts: o.hosts, ImageQuota: int64(o.quota), Log: log}
}

func addNodeFlags(f *pflag.FlagSet, o *clusterOptions) {
	f.StringVar(&o.nodeName, "node-name", defaultNodeName(), "name of the node")
	f.StringVar(&o.nodeIP, "node-ip", "", "address of the node (default: the machine's first that others can reach)")
	f.StringSliceVar(&o.hostPaths, "host-path", nil, "folder that pods may mount by hostPath, with what is beneath")
	addImageFlags(f, &o.images)
}

func addLogFlag(f *pflag.FlagSet, level *slog.Level) {
	f.TextVar(level, "log-level", *level, "least level that is logged: debug, info, warn or error")
}

// checkServer refuses names that a certificate cannot be for.
func (o *clusterOptions) checkServer() error {
	for _, host := range o.hosts {
		if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0 {
			return fmt.Errorf("--host %q is neither a host name nor an IP address", host)
		}
	}
	return nil
}

// checkNode refuses what a node could not work with, before anything is made, and makes the node's folders absolute.
func (o *clusterOptions) checkNode() error {
	if err := checkNodeName("--node-name", o.nodeName); err != nil {
		return err
	}
	if o.nodeIP != "" {
		if _, err := netip.ParseAddr(o.nodeIP); err != nil {
			return fmt.Errorf("--node-ip %q is no IP address", o.nodeIP)
		}
	}
	return errors.Join(o.images.check(), absoluteFolders("--host-path", o.hostPaths))
}

// absoluteFolders replaces the paths by absolute ones. Each must be that of a folder.
func absoluteFolders(flag string, paths []string) error {
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%s %q: %w", flag, path, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s %q is not a folder", flag, path)
		}
		if paths[i], err = filepath.Abs(path); err != nil {
			return fmt.Errorf("%s %q: %w", flag, path, err)
		}
	}
	return nil
}

// checkNodeName tells whether a node may have the name, which is the value of one of its labels, too.
func checkNodeName(flag, name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > validation.LabelValueMaxLength {
		return fmt.Errorf("%s %q cannot be a node's name, which has lower-case letters, digits, '-' and '.', begins and ends with "+
			"a letter or digit, and is at most %d long", flag, name, validation.LabelValueMaxLength)
	}
	return nil
}

// defaultNodeName is made from the machine's name.
func defaultNodeName() string {
	hostname, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return nodeNameOf(hostname)
}

// nodeNameOf returns the node's name that is nearest to a machine's: lower case, with dashes for what is not allowed.
func nodeNameOf(hostname string) string {
	allowed := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}
	name := strings.Map(allowed, strings.ToLower(hostname))
	name = name[:min(len(name), validation.LabelValueMaxLength)]
	var parts []string
	for part := range strings.SplitSeq(name, ".") {
		if part = strings.Trim(part, "-"); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "node"
	}
	return strings.Join(parts, ".")
}

// endSignals are those that end edgepod: Ctrl-C, a service manager's, and that of a terminal which is closed, unless
// whoever started edgepod had that one ignored, as nohup does.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// outliveOutput keeps edgepod from being ended, with its pods left behind, because nobody reads its output any more: what
// it writes is lost then, and nothing else.
func outliveOutput() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
