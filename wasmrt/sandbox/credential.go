package sandbox

import "log/slog"

// String names the server alone: what a credential holds is for no log.
func (c Credential) String() string { return "credential for " + c.Server }

// GoString implements fmt.GoStringer, as String does.
func (c Credential) GoString() string { return c.String() }

// LogValue implements slog.LogValuer, as String does.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }
