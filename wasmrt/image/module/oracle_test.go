package module_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"edgepod/wasmrt/image/module"
)

// features are the proposals that the engine can switch on and off.
var features = map[module.Proposal]api.CoreFeatures{
	module.MutableGlobal:  api.CoreFeatureMutableGlobal,
	module.SignExtension:  api.CoreFeatureSignExtensionOps,
	module.FloatToInt:     api.CoreFeatureNonTrappingFloatToIntConversion,
	module.MultiValue:     api.CoreFeatureMultiValue,
	module.BulkMemory:     api.CoreFeatureBulkMemoryOperations,
	module.ReferenceTypes: api.CoreFeatureReferenceTypes,
	module.SIMD:           api.CoreFeatureSIMD,
	module.Threads:        experimental.CoreFeaturesThreads,
	module.TailCall:       experimental.CoreFeaturesTailCall,
	module.ExtendedConst:  experimental.CoreFeaturesExtendedConst,
	module.Exceptions:     experimental.CoreFeaturesExceptionHandling,
	module.FunctionRefs:   experimental.CoreFeaturesTypedFunctionReferences,
}

// corpus calls do with each module that the engine's own tests have, and with ours.
func corpus(t *testing.T, do func(name string, wasm []byte)) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, dir := range []string{strings.TrimSpace(string(out)), "../.."} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".wasm" {
				return err
			}
			wasm, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n++
			do(strings.TrimPrefix(path, dir), wasm)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 1000 {
		t.Errorf("found %d modules only", n)
	}
}

// TestAgreesWithTheEngine holds that whatever the engine compiles is read here, with the same imports, exports and memories,
// and that the proposals found are enough for it.
func TestAgreesWithTheEngine(t *testing.T) {
	ctx := context.Background()
	all := api.CoreFeaturesV2
	for _, f := range features {
		all |= f
	}
	compile := func(f api.CoreFeatures, wasm []byte) (wazero.CompiledModule, error) {
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(f))
		t.Cleanup(func() { _ = r.Close(ctx) })
		return r.CompileModule(ctx, wasm)
	}
	compared := 0
	corpus(t, func(name string, wasm []byte) {
		compiled, err := compile(all, wasm)
		if err != nil {
			return
		}
		compared++
		m, err := module.Read(bytes.NewReader(wasm), int64(len(wasm)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if diff := cmp.Diff(engineView(compiled), ownView(m)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, err := compile(enough(m.Needs), wasm); err != nil && !isBoundsCheck(err) {
			t.Errorf("%s: with %v alone: %v", name, m.Needs, err)
		}
		var slim bytes.Buffer
		if err := m.Slim(bytes.NewReader(wasm), &slim); err != nil {
			t.Errorf("%s: slim: %v", name, err)
			return
		}
		if _, err := compile(all, slim.Bytes()); err != nil {
			t.Errorf("%s: slim: %v", name, err)
		}
	})
	t.Logf("%d modules compared", compared)
}

// enough returns the features of these proposals, and of those that they build upon.
func enough(needs []module.Proposal) (out api.CoreFeatures) {
	for _, p := range needs {
		out |= features[p]
		switch p {
		case module.FunctionRefs:
			out |= api.CoreFeatureReferenceTypes | api.CoreFeatureBulkMemoryOperations
		case module.ReferenceTypes, module.Exceptions:
			out |= api.CoreFeatureReferenceTypes | api.CoreFeatureBulkMemoryOperations
		}
	}
	return out
}

// isBoundsCheck tells errors by which WebAssembly 1.0 was stricter than later versions, without an extension of its own.
func isBoundsCheck(err error) bool {
	return slices.ContainsFunc([]string{"exceeds min table size", "inconsistent block type for br_table", "out of range of imported globals"},
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// view is what both tell of a module.
type view struct{ Imports, Exports, Memories []string }

func engineView(c wazero.CompiledModule) (v view) {
	for _, f := range c.ImportedFunctions() {
		mod, name, _ := f.Import()
		v.Imports = append(v.Imports, mod+"."+name+signature(f.ParamTypes(), f.ResultTypes()))
	}
	for name := range c.ExportedFunctions() {
		v.Exports = append(v.Exports, name)
	}
	for name := range c.ExportedMemories() {
		v.Memories = append(v.Memories, name)
	}
	slices.Sort(v.Exports)
	slices.Sort(v.Memories)
	return v
}

func ownView(m *module.Module) (v view) {
	for _, im := range m.Imports {
		if im.Kind == module.KindFunc {
			v.Imports = append(v.Imports, im.Module+"."+im.Name+signature(im.Params, im.Results))
		}
	}
	for _, ex := range m.Exports {
		switch ex.Kind {
		case module.KindFunc:
			v.Exports = append(v.Exports, ex.Name)
		case module.KindMemory:
			v.Memories = append(v.Memories, ex.Name)
		}
	}
	slices.Sort(v.Exports)
	slices.Sort(v.Memories)
	return v
}

// signature takes all references to functions for one: the engine forgets what their types say beyond that.
func signature(params, results []byte) string {
	return strings.NewReplacer("c", "p", "d", "p").Replace(string(params) + "→" + string(results))
}
