// Package pullsecret reads the credentials for image registries that image pull secrets hold.
package pullsecret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// The most that is read of one secret: bytes, entries, and bytes of a name, a password or a token.
const (
	maxBytes   = 1 << 20
	maxEntries = 512
	maxValue   = 64 << 10
)

// Read returns the credentials in a secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. Errors say
// what is wrong with the secret and nothing of what it holds.
func Read(secret *corev1.Secret) ([]sandbox.Credential, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]entry `json:"auths"`
		}
		if err := decode(secret, corev1.DockerConfigJsonKey, &config); err != nil {
			return nil, err
		}
		return credentials(config.Auths)
	case corev1.SecretTypeDockercfg:
		var auths map[string]entry
		if err := decode(secret, corev1.DockerConfigKey, &auths); err != nil {
			return nil, err
		}
		return credentials(auths)
	}
	return nil, fmt.Errorf("it is of type %q, not %s", secret.Type, corev1.SecretTypeDockerConfigJson)
}

// Sort puts the more specific servers first, so that credentials for a repository are tried before those of its registry;
// those for the same server keep their order.
func Sort(all []sandbox.Credential) {
	slices.SortStableFunc(all, func(a, b sandbox.Credential) int { return cmp.Compare(bare(b.Server), bare(a.Server)) })
}

// bare is a server's name without the scheme.
func bare(server string) string {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		return rest
	}
	return server
}

// entry is that of one server. Auth holds the name and the password in place of those two.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func decode(secret *corev1.Secret, key string, into any) error {
	data, ok := secret.Data[key]
	switch {
	case !ok || len(data) == 0:
		return fmt.Errorf("it has no data under %s", key)
	case len(data) > maxBytes:
		return fmt.Errorf("its %s is larger than %d bytes", key, maxBytes)
	case json.Unmarshal(data, into) != nil: // whose error may quote a value
		return fmt.Errorf("its %s is no Docker configuration in JSON", key)
	}
	return nil
}

func credentials(auths map[string]entry) ([]sandbox.Credential, error) {
	if len(auths) > maxEntries {
		return nil, fmt.Errorf("it has more than %d entries", maxEntries)
	}
	var out []sandbox.Credential
	var empty error
	for _, server := range slices.Sorted(maps.Keys(auths)) {
		c, err := auths[server].credential(server)
		if err != nil {
			err = fmt.Errorf("its entry for %q: %w", clip(server), err)
		}
		switch {
		case errors.Is(err, errEmpty): // as docker leaves it where a program keeps the password
			empty = cmp.Or(empty, err)
		case err != nil:
			return nil, err
		default:
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, empty
	}
	Sort(out)
	return out, nil
}

var errEmpty = errors.New("it has neither a name with password nor a token")

func (e entry) credential(server string) (sandbox.Credential, error) {
	c := sandbox.Credential{
		Server: server, Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if e.Auth != "" {
		text, err := base64.StdEncoding.DecodeString(padded(e.Auth))
		if err != nil {
			return sandbox.Credential{}, errors.New("auth is not in base64")
		}
		name, password, ok := strings.Cut(string(text), ":")
		if !ok {
			return sandbox.Credential{}, errors.New("auth is not of the form NAME:PASSWORD")
		}
		c.Username, c.Password = name, strings.TrimRight(password, "\x00")
	}
	for _, value := range []string{c.Username, c.Password, c.IdentityToken, c.RegistryToken} {
		switch {
		case len(value) > maxValue:
			return sandbox.Credential{}, fmt.Errorf("a value is longer than %d bytes", maxValue)
		case strings.ContainsAny(value, "\r\n\x00"):
			return sandbox.Credential{}, errors.New("a value holds a line break or a zero byte")
		}
	}
	if c.Username == "" && c.Password == "" && c.IdentityToken == "" && c.RegistryToken == "" {
		return sandbox.Credential{}, errEmpty
	}
	return c, nil
}

// clip keeps what a user wrote short enough for a message.
func clip(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// padded completes base64 that was written without its padding.
func padded(text string) string {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	return text + strings.Repeat("=", -len(text)&3)
}
