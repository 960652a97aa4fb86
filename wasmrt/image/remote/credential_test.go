package remote

import (
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

func TestCredentialsAreChosenAsByTheKubelet(t *testing.T) {
	const all = "docker.io index.docker.io https://index.docker.io/v1/ https://registry.example/v1/ http://registry.example/v2/ registry.example/team registry.example/team/app " +
		"registry.example:5000 *.example *.registry.example [::1]:5000 https://registry.example:5000/v2/deep %zz https:// [a.example registry.exam*"
	for repository, want := range map[string]string{
		"index.docker.io/library/nginx":      "docker.io index.docker.io https://index.docker.io/v1/",
		"docker.io/library/nginx":            "docker.io index.docker.io https://index.docker.io/v1/",
		"registry.example/other":             "https://registry.example/v1/ http://registry.example/v2/ registry.exam* *.example",
		"registry.example/team/app":          "registry.example/team/app registry.example/team https://registry.example/v1/ http://registry.example/v2/ registry.exam* *.example",
		"registry.example/team2":             "registry.example/team https://registry.example/v1/ http://registry.example/v2/ registry.exam* *.example",
		"registry.example:5000/deep/x":       "https://registry.example:5000/v2/deep registry.example:5000",
		"eu.registry.example/x":              "*.registry.example",
		"registry.example.evil/x":            "",
		"registryexample/x":                  "",
		"[::1]:5000/x":                       "[::1]:5000",
		"evil.example/registry.example/team": "*.example",
	} {
		var given []sandbox.Credential
		for server := range strings.FieldsSeq(all) {
			given = append(given, sandbox.Credential{Server: server})
		}
		var got []string
		for _, c := range Matching(given, repository) {
			got = append(got, c.Server)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", repository, strings.Join(got, " "), want)
		}
	}
}

func TestCredentialsWithTheSameKeyKeepTheirOrder(t *testing.T) {
	got := Matching([]sandbox.Credential{{Server: "r.example", Username: "1"}, {Server: "https://r.example/", Username: "2"}, {Server: "r.example", Username: "3"}}, "r.example/x")
	if len(got) != 3 || got[0].Username+got[1].Username+got[2].Username != "123" {
		t.Errorf("%+v", got)
	}
}

func FuzzMatching(f *testing.F) {
	f.Add("https://index.docker.io/v1/", "docker.io/library/nginx")
	f.Add("*.example:5000/team", "a.example:5000/team/app")
	f.Add("[::1]:5000", "[::1]:5000/x")
	f.Fuzz(func(t *testing.T, server, repository string) {
		host, _, _ := strings.Cut(repository, "/")
		got := Matching([]sandbox.Credential{{Server: server}}, repository)
		// Without a glob, only a credential that names the very host may be given.
		if len(got) == 1 && !strings.ContainsAny(server, `*?[\%`) && canonicalHost(host) == host && !strings.Contains(server, strings.TrimSuffix(host, ":")) {
			t.Errorf("the credential of %q is given to %q", server, repository)
		}
	})
}
