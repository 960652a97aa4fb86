package api

import (
	"log/slog"
	"net/http"
	"time"
)

// HTTPServer returns a server with the limits on time and size that the API is meant to be served with. Its TLS
// configuration, if any, must ask for client certificates with VerifyClientCertIfGiven.
func HTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          1000,
			MaxReceiveBufferPerStream:     256 << 10,
			MaxReceiveBufferPerConnection: 1 << 20,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              time.Minute,
		},
	}
	if log != nil {
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	}
	return s
}
