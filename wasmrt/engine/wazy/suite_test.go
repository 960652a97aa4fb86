package wazy_test

import (
	"testing"

	"edgepod/wasmrt/engine/enginetest"
	"edgepod/wasmrt/engine/wazy"
)

func TestEnginePassesTheSuite(t *testing.T) { enginetest.Run(t, wazy.New) }
