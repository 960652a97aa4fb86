package registry

// resources lists every kind served, in the order of discovery. Adding one is a file with its constructor, and a line here.
func resources() []*Resource {
	return []*Resource{
		configMaps(),
		events(),
		namespaces(),
		nodes(),
		pods(),
		secrets(),
		serviceAccounts(),
		leases(),
	}
}

// verbsAll in discovery's words, sorted.
var verbsAll = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
