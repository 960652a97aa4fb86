package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/lifecycle"
)

// The names in a pod's folder. None can be a container's name.
const (
	stateFile     = "state.json"
	volumesFolder = ".volumes"
	etcFolder     = ".etc"
)

// podFolder is the folder of one pod:
//
//	DATA/pods/NAMESPACE_NAME_UID/
//	  state.json            what is remembered of the pod
//	  .volumes/NAME         its volumes
//	  .etc/NAME             files that its containers find in /etc
//	  CONTAINER/N.log       log of attempt N; N.log.1 is the part before
type podFolder string

// newPodFolder names the pod's folder. A name too long for a folder is cut: the UID keeps it unique.
func newPodFolder(dataDir, namespace, name, uid string) (podFolder, error) {
	for _, part := range []string{namespace, name, uid} {
		if part == "" || strings.ContainsAny(part, "/\\_\x00") || !filepath.IsLocal(part) {
			return "", fmt.Errorf("pod %q/%q with uid %q cannot have a folder", namespace, name, uid)
		}
	}
	if room := 250 - len(namespace) - len(uid); len(name) > room {
		name = name[:max(room, 1)]
	}
	return podFolder(filepath.Join(dataDir, "pods", namespace+"_"+name+"_"+uid)), nil
}

func (f podFolder) volumes() string { return filepath.Join(string(f), volumesFolder) }
func (f podFolder) etc() string     { return filepath.Join(string(f), etcFolder) }

func (f podFolder) log(container string, attempt int) string {
	return filepath.Join(string(f), container, strconv.Itoa(attempt)+".log")
}

// dropLogs removes the logs of attempts before keep.
func (f podFolder) dropLogs(container string, keep int) error {
	dir := filepath.Join(string(f), container)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, _, ok := strings.Cut(e.Name(), ".log")
		if n, err := strconv.Atoi(number); !ok || err != nil || n >= keep {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint is what outlives the agent: the pod as last seen, and what is observed of it.
type checkpoint struct {
	Pod      *corev1.Pod        `json:"pod"`
	Observed lifecycle.Observed `json:"observed"`
}

// save replaces the checkpoint by a new one, whole or not at all. A power cut may lose it: no container runs then, and
// the API knows the counts.
func (f podFolder) save(data []byte) error {
	temporary := filepath.Join(string(f), "."+stateFile)
	err := os.WriteFile(temporary, data, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(string(f), 0o700); err == nil {
			err = os.WriteFile(temporary, data, 0o600)
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(string(f), stateFile))
}

// load reads the checkpoint, nil for none. One that cannot be read is put aside, and the error says where.
func (f podFolder) load() (*checkpoint, error) {
	path := filepath.Join(string(f), stateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &checkpoint{}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil || c.Pod == nil {
		if err == nil {
			err = errors.New("it names no pod")
		}
		aside := path + ".corrupt"
		return nil, fmt.Errorf("checkpoint put aside as %s: %w", aside, errors.Join(err, os.Rename(path, aside)))
	}
	return c, nil
}

// remove removes the folder with everything in it but the volumes, which must be gone.
func (f podFolder) remove() error { return os.RemoveAll(string(f)) }
