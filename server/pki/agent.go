package pki

// How a server and the agents that are not in its process know each other.
const (
	// AgentClient is the common name of the certificate that the server shows to agents; they let no other in.
	AgentClient = "edgepod-server"
	// ServingCertAnnotation is where an agent publishes in its Node the SHA-256, in hexadecimal, of the certificate that its
	// own port serves: the server speaks to no other.
	ServingCertAnnotation = "edgepod.dev/serving-cert-sha256"
)
