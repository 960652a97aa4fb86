package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"edgepod/server/pki"
)

// KubeconfigFile is the name of the administrator's kubeconfig in the data folder.
const KubeconfigFile = "kubeconfig"

// pkiDir is the folder of keys and certificates in the data folder.
const pkiDir = "pki"

// credentials are what the server knows its callers by.
type credentials struct {
	authority  *pki.Authority
	adminToken string
}

// openCredentials reads or makes the authority, the administrator's token and client certificate.
func openCredentials(dataDir string, now time.Time) (*credentials, error) {
	dir := filepath.Join(dataDir, pkiDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authority, err := pki.OpenAuthority(dir, now)
	if err != nil {
		return nil, err
	}
	token, err := openToken(filepath.Join(dir, "admin.token"))
	if err != nil {
		return nil, err
	}
	if _, _, err := authority.ClientFiles(dir, "admin", "admin", []string{"system:masters"}, now); err != nil {
		return nil, err
	}
	return &credentials{authority: authority, adminToken: token}, nil
}

func openToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if token := strings.TrimSpace(string(data)); err == nil && len(token) >= 32 {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token := randomToken()
	return token, pki.WriteFile(path, []byte(token+"\n"))
}

func randomToken() string {
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		panic("the system's source of randomness is broken: " + err.Error())
	}
	return hex.EncodeToString(secret[:])
}

// writeKubeconfig writes the administrator's kubeconfig, for a server that answers at the URL.
func (c *credentials) writeKubeconfig(path, url string) error {
	data, err := clientcmd.Write(kubeconfig(url, "admin", c.authority.PEM(), &clientcmdapi.AuthInfo{Token: c.adminToken}))
	if err != nil {
		return err
	}
	return pki.WriteFile(path, data)
}

// NodeKubeconfig returns a kubeconfig with which `edgepod agent` of that node name may join the cluster in the data folder:
// a client certificate of user system:node:NAME. The server need not run.
func NodeKubeconfig(dataDir, node string, now time.Time) ([]byte, error) {
	admin, err := clientcmd.LoadFromFile(filepath.Join(dataDir, KubeconfigFile))
	if err != nil {
		return nil, fmt.Errorf("data folder %s has no cluster yet: %w", dataDir, err)
	}
	authority, err := pki.OpenAuthority(filepath.Join(dataDir, pkiDir), now)
	if err != nil {
		return nil, err
	}
	user := "system:node:" + node
	cert, key, err := authority.Client(user, []string{"system:nodes"}, now)
	if err != nil {
		return nil, err
	}
	info := &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	return clientcmd.Write(kubeconfig(admin.Clusters["edgepod"].Server, user, authority.PEM(), info))
}

func kubeconfig(url, user string, authority []byte, info *clientcmdapi.AuthInfo) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["edgepod"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos["edgepod-"+user] = info
	config.Contexts["edgepod"] = &clientcmdapi.Context{Cluster: "edgepod", AuthInfo: "edgepod-" + user}
	config.CurrentContext = "edgepod"
	return *config
}
