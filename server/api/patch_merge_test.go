package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// The cases of RFC 7386 that have objects on both sides, and those that Kubernetes' own library decides.
func TestMergePatches(t *testing.T) {
	for _, test := range []struct{ document, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":"x"}`, `{"a":{"b":null,"c":1}}`, `{"a":{"c":1}}`},
		{`{"a":[]}`, `{"a":[{"b":null,"c":[null,{"d":null}]},null]}`, `{"a":[{"c":[null,{}]},null]}`},
		{`{"n":1}`, `{"n":9007199254740993}`, `{"n":9007199254740993}`},
	} {
		document, patch := map[string]any{}, map[string]any{}
		p := &patcher{}
		for text, into := range map[string]*map[string]any{test.document: &document, test.patch: &patch} {
			if err := p.readStrict([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		mergeObject(document, patch)
		got, _ := json.Marshal(document)
		if compact(t, got) != canonical(t, []byte(test.want)) {
			t.Errorf("%s with %s: got %s, want %s", test.document, test.patch, got, test.want)
		}
		library, err := jsonpatch.MergePatch([]byte(test.document), []byte(test.patch))
		if err != nil || canonical(t, library) != canonical(t, []byte(test.want)) {
			t.Errorf("%s with %s: the library says %s, %v", test.document, test.patch, library, err)
		}
		if again := map[string]any{}; p.readStrict([]byte(test.patch), &again) != nil || cmp.Diff(patch, again) != "" {
			t.Errorf("the patch %s was changed to %v", test.patch, patch)
		}
	}
}

// canonical is a document with its keys in order.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var document map[string]any
	if err := (&patcher{}).readStrict(text, &document); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What is merged here is what Kubernetes' library merges.
func FuzzMergeIsThatOfTheLibrary(f *testing.F) {
	for _, patch := range []string{`{"a":{"b":null}}`, `{"b":[{"c":null},null]}`, `{"a":null,"d":{"e":{"f":null}}}`, `{"c":1.5e3}`, `{"a":[1]}`} {
		f.Add([]byte(`{"a":{"b":1,"c":{"d":[]}},"b":"x","c":null}`), []byte(patch))
	}
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		var into, change map[string]any
		p := &patcher{}
		if p.readStrict(document, &into) != nil || p.readStrict(patch, &change) != nil || into == nil || change == nil || len(p.unknown) > 0 {
			return
		}
		plain, err := json.Marshal(into)
		if err != nil {
			return
		}
		change2, err := json.Marshal(change)
		if err != nil {
			return
		}
		library, err := jsonpatch.MergePatch(plain, change2)
		if err != nil {
			return
		}
		mergeObject(into, change)
		got, _ := json.Marshal(into)
		if string(got) != canonical(t, library) {
			t.Errorf("%s with %s: got %s, want %s", document, patch, got, library)
		}
	})
}
