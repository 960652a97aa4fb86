package pullsecret

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

func configJSON(text string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(text)}}
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestReadGivesEveryEntryTheMoreSpecificFirst(t *testing.T) {
	got, err := Read(configJSON(`{"auths": {
		"registry.example": {"auth": "` + encoded("a:b:c") + `", "email": "x@example.org"},
		"https://registry.example/team": {"username": "u", "password": "p"},
		"tokens.example:5000": {"identitytoken": "id", "auth": "` + encoded("<token>:") + `"},
		"*.wild.example": {"registrytoken": "rt"},
		"kept.example": {}
	}, "credsStore": "desktop"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []sandbox.Credential{
		{Server: "tokens.example:5000", Username: "<token>", IdentityToken: "id"},
		{Server: "https://registry.example/team", Username: "u", Password: "p"},
		{Server: "registry.example", Username: "a", Password: "b:c"},
		{Server: "*.wild.example", RegistryToken: "rt"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
}

func TestReadTakesTheOldFormAndBase64WithoutPadding(t *testing.T) {
	secret := &corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{
		corev1.DockerConfigKey: []byte(`{"r.example": {"auth": "` + strings.TrimRight(encoded("me:pw"), "=") + `"}}`),
	}}
	got, err := Read(secret)
	if want := []sandbox.Credential{{Server: "r.example", Username: "me", Password: "pw"}}; err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %#v, %v", got, err)
	}
}

func TestReadSaysWhatIsWrongAndNothingOfTheContent(t *testing.T) {
	const hidden = "hunter2"
	many := make([]string, maxEntries+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"h%d": {"username": "u", "password": %q}`, i, hidden)
	}
	tests := map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"other type":     {&corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte(hidden)}}, `type "Opaque"`},
		"no key":         {&corev1.Secret{Type: corev1.SecretTypeDockerConfigJson}, "no data under .dockerconfigjson"},
		"no JSON":        {configJSON(hidden), "no Docker configuration"},
		"numbers":        {configJSON(`{"auths": {"a": {"username": 4711}}}`), "no Docker configuration"},
		"no base64":      {configJSON(`{"auths": {"a": {"auth": "` + hidden + `!"}}}`), "not in base64"},
		"no colon":       {configJSON(`{"auths": {"a": {"auth": "` + encoded(hidden) + `"}}}`), "NAME:PASSWORD"},
		"empty entry":    {configJSON(`{"auths": {"a": {}}}`), `"a": it has neither`},
		"long server":    {configJSON(`{"auths": {"` + strings.Repeat("a", 5000) + `": {}}}`), `aaa…": it has neither`},
		"line break":     {configJSON(`{"auths": {"a": {"username": "u", "password": "` + hidden + `\n"}}}`), "line break"},
		"long value":     {configJSON(`{"auths": {"a": {"password": "` + strings.Repeat("x", maxValue+1) + `"}}}`), "longer"},
		"many entries":   {configJSON(`{"auths": {` + strings.Join(many, ",") + `}}`), "entries"},
		"much data":      {configJSON(strings.Repeat(" ", maxBytes+1)), "larger"},
		"another's JSON": {configJSON(`["` + hidden + `"]`), "no Docker configuration"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Read(test.secret)
			if err == nil || !strings.Contains(err.Error(), test.want) || got != nil {
				t.Fatalf("got %d credentials, error %v, want one about %q", len(got), err, test.want)
			}
			for _, secret := range []string{hidden, encoded(hidden), "4711"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells what the secret holds: %v", err)
				}
			}
		})
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := sandbox.Credential{Server: "r.example", Username: "me", Password: "hunter2", IdentityToken: "idtok", RegistryToken: "regtok"}
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		for _, value := range []any{c, &c, []sandbox.Credential{c}, sandbox.PullRequest{Ref: "a", Credentials: []sandbox.Credential{c}}} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "hunter2") || strings.Contains(text, "tok") {
				t.Errorf("%s of %T shows %s", verb, value, text)
			}
		}
	}
}

// FuzzRead holds that whatever a secret holds, what is read of it is bounded and fit for a request's header.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"auths": {"registry.example": {"auth": "YTpi"}}}`))
	f.Add([]byte(`{"registry.example": {"username": "a", "password": "b"}}`))
	f.Add([]byte(`{"auths": {"": {"auth": "Og"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for typ, key := range map[corev1.SecretType]string{
			corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey, corev1.SecretTypeDockercfg: corev1.DockerConfigKey,
		} {
			all, err := Read(&corev1.Secret{Type: typ, Data: map[string][]byte{key: data}})
			if err != nil && all != nil || len(all) > maxEntries {
				t.Fatalf("%d credentials, error %v", len(all), err)
			}
			for _, c := range all {
				if strings.ContainsAny(c.Username+c.Password+c.IdentityToken+c.RegistryToken, "\r\n\x00") {
					t.Fatalf("%q has what no header may hold", c.Username)
				}
			}
		}
	})
}
