package registry

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	f := newFixture(t)
	o := f.create("pods", newPod("a"))
	t.Logf("%s", o.JSON())
	b, err := o.Protobuf()
	t.Logf("%q %v", b[:20], err)
	t.Logf("%s", f.get("namespaces", "", "default").JSON())
}
