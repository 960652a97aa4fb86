package wazero_test

import (
	"testing"

	"edgepod/wasmrt/engine/enginetest"
	"edgepod/wasmrt/engine/wazero"
)

func TestEnginePassesTheSuite(t *testing.T) { enginetest.Run(t, wazero.New) }
