//go:build wasip1

package os

// hostname reads the pod's name where Linux has it.
func hostname() (name string, err error) {
	text, err := ReadFile("/etc/hostname")
	if err != nil {
		if name := Getenv("HOSTNAME"); name != "" {
			return name, nil
		}
		return "", err
	}
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return string(text), nil
}
