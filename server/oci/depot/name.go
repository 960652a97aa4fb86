package depot

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"regexp"
	"strings"
)

// Digest names a content by its hash: "sha256:" or "sha512:" and lower-case hexadecimal digits.
type Digest string

var digestForm = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// ParseDigest returns the digest that s spells.
func ParseDigest(s string) (Digest, error) {
	if !digestForm.MatchString(s) {
		return "", fmt.Errorf("digest %q is not sha256: or sha512: with lower-case hexadecimal digits", clip(s))
	}
	return Digest(s), nil
}

// DigestOf returns the digest of a content, by SHA-256.
func DigestOf(content []byte) Digest { return Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(content))) }

func (d Digest) split() (algorithm, sum string) {
	algorithm, sum, _ = strings.Cut(string(d), ":")
	return algorithm, sum
}

// NewHash returns a hash of the digest's kind.
func (d Digest) NewHash() hash.Hash {
	if strings.HasPrefix(string(d), "sha512:") {
		return sha512.New()
	}
	return sha256.New()
}

// Matches tells whether a hash of the digest's kind has come to the digest.
func (d Digest) Matches(h hash.Hash) bool {
	_, sum := d.split()
	return fmt.Sprintf("%x", h.Sum(nil)) == sum
}

// maxName is the longest name of a repository: a file's name could not be longer either.
const maxName = 255

var (
	repositoryForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)+$`)
	tagForm        = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// CheckRepository tells whether a repository may have the name: NAMESPACE/NAME, where NAME may have further parts.
func CheckRepository(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("the repository's name is longer than %d characters", maxName)
	case repositoryForm.MatchString(name):
		return nil
	case !strings.Contains(name, "/"):
		return fmt.Errorf("repository %q is in no namespace: say NAMESPACE/NAME", name)
	}
	return fmt.Errorf("repository %q is not NAMESPACE/NAME in lower-case letters and digits, with single '.', '_', '-' or '/' between them", name)
}

// CheckTag tells whether a tag may have the name.
func CheckTag(tag string) error {
	if !tagForm.MatchString(tag) {
		return fmt.Errorf("tag %q is not up to 128 letters, digits, '_', '.' and '-', beginning with none of the last two", clip(tag))
	}
	return nil
}

// NamespaceOf returns the namespace that a repository is in.
func NamespaceOf(repository string) string {
	namespace, _, _ := strings.Cut(repository, "/")
	return namespace
}

// clip keeps what a client sent short enough for a message.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
