package api

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

// discovery tells what the API serves, in the form of old clients (a document per group and version) and of new ones (one
// document for the core group and one for all others). It is made once.
type discovery struct {
	versions map[schema.GroupVersion]*metav1.APIResourceList
	groups   metav1.APIGroupList
	// core and named are the documents of new clients, by version of their format.
	core, named map[string]*tagged
}

// tagged is an encoded document with the ETag by which clients ask whether it has changed.
type tagged struct {
	object runtime.Object
	etag   string
}

const discoveryGroup = "apidiscovery.k8s.io"

func newDiscovery(resources []*registry.Resource) (*discovery, error) {
	d := &discovery{versions: map[schema.GroupVersion]*metav1.APIResourceList{}, core: map[string]*tagged{}, named: map[string]*tagged{}}
	d.groups.TypeMeta = metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}
	d.groups.Groups = []metav1.APIGroup{}
	var order []schema.GroupVersion
	byVersion := map[schema.GroupVersion][]*registry.Resource{}
	for _, res := range resources {
		gv := res.Kind.GroupVersion()
		if byVersion[gv] == nil {
			order = append(order, gv)
		}
		byVersion[gv] = append(byVersion[gv], res)
	}
	var core, named []apidiscoveryv2.APIGroupDiscovery
	for _, gv := range order {
		of := byVersion[gv]
		slices.SortFunc(of, func(x, y *registry.Resource) int { return strings.Compare(x.Name, y.Name) })
		d.versions[gv] = legacyList(gv, of)
		if gv.Group == "" {
			core = append(core, aggregatedGroup(gv, of))
			continue
		}
		named = append(named, aggregatedGroup(gv, of))
		d.groups.Groups = append(d.groups.Groups, legacyGroup(gv))
	}
	for documents, groups := range map[*map[string]*tagged][]apidiscoveryv2.APIGroupDiscovery{&d.core: core, &d.named: named} {
		if err := tagAggregated(*documents, groups); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// servesGroup tells whether any resource is of the group.
func (d *discovery) servesGroup(group string) bool {
	for gv := range d.versions {
		if gv.Group == group {
			return true
		}
	}
	return false
}

func legacyGroup(gv schema.GroupVersion) metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	return metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

func legacyList(gv schema.GroupVersion, resources []*registry.Resource) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	list.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
	for _, res := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: res.Name, SingularName: res.Singular, Namespaced: res.Namespaced, Kind: res.Kind.Kind,
			Verbs: res.Verbs, ShortNames: res.ShortNames, Categories: res.Categories,
		})
		for _, sub := range res.Subresources {
			entry := metav1.APIResource{Name: res.Name + "/" + sub.Name, Namespaced: res.Namespaced, Kind: sub.Kind.Kind, Verbs: sub.Verbs}
			if sub.Kind.GroupVersion() != gv {
				entry.Group, entry.Version = sub.Kind.Group, sub.Kind.Version
			}
			list.APIResources = append(list.APIResources, entry)
		}
	}
	return list
}

func aggregatedGroup(gv schema.GroupVersion, resources []*registry.Resource) apidiscoveryv2.APIGroupDiscovery {
	version := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, res := range resources {
		scope := apidiscoveryv2.ScopeCluster
		if res.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		entry := apidiscoveryv2.APIResourceDiscovery{
			Resource: res.Name, ResponseKind: kindOf(res.Kind), Scope: scope, SingularResource: res.Singular,
			Verbs: res.Verbs, ShortNames: res.ShortNames, Categories: res.Categories,
		}
		for _, sub := range res.Subresources {
			entry.Subresources = append(entry.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: sub.Name, ResponseKind: kindOf(sub.Kind), Verbs: sub.Verbs,
			})
		}
		version.Resources = append(version.Resources, entry)
	}
	group := apidiscoveryv2.APIGroupDiscovery{Versions: []apidiscoveryv2.APIVersionDiscovery{version}}
	group.Name = gv.Group
	return group
}

func kindOf(kind schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
}

// tagAggregated makes the document in both versions of its format, which differ in their name alone.
func tagAggregated(into map[string]*tagged, groups []apidiscoveryv2.APIGroupDiscovery) error {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: groups}
	encoded, err := json.Marshal(list)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(encoded)
	etag := strings.ToUpper(hex.EncodeToString(sum[:]))
	beta := &apidiscoveryv2beta1.APIGroupDiscoveryList{}
	if err := json.Unmarshal(encoded, beta); err != nil {
		return err
	}
	list.TypeMeta = metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: discoveryGroup + "/v2"}
	beta.TypeMeta = metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: discoveryGroup + "/v2beta1"}
	into["v2"], into["v2beta1"] = &tagged{list, etag}, &tagged{beta, etag}
	return nil
}

// discoverLegacy serves /api.
func (a *API) discoverLegacy(r *request) error {
	return a.writeDiscovery(r, a.discovery.core, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Request().Host}},
	})
}

// discoverGroups serves /apis.
func (a *API) discoverGroups(r *request) error {
	return a.writeDiscovery(r, a.discovery.named, &a.discovery.groups)
}

// writeDiscovery answers in the form that the client asks for first.
func (a *API) writeDiscovery(r *request, aggregated map[string]*tagged, legacy runtime.Object) error {
	r.Response().Header().Set("Vary", "Accept")
	out, ok := negotiate(r.Request(), func(out output) bool {
		return out.convert.Group == discoveryGroup && out.convert.Kind == "APIGroupDiscoveryList" && aggregated[out.convert.Version] != nil
	})
	if !ok {
		return notAcceptable(mediaTypes[:]...)
	}
	if out.convert.Empty() {
		return a.writeRuntime(r, out, http.StatusOK, legacy)
	}
	document := aggregated[out.convert.Version]
	r.Response().Header().Set("ETag", `"`+document.etag+`"`)
	if matches(r.Request(), document.etag) {
		return r.NoContent(http.StatusNotModified)
	}
	return a.writeAs(r, out, document.object)
}

// writeAs names in the Content-Type what the client asked for by as=.
func (a *API) writeAs(r *request, out output, object runtime.Object) error {
	r.contentSuffix = ";g=" + out.convert.Group + ";v=" + out.convert.Version + ";as=" + out.convert.Kind
	return a.writeRuntime(r, out, http.StatusOK, object)
}

// matches tells whether the client has the document with the tag already.
func matches(req *http.Request, etag string) bool {
	for _, tag := range strings.Split(req.Header.Get("If-None-Match"), ",") {
		if tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// discoverGroup serves /apis/GROUP.
func (a *API) discoverGroup(r *request) error {
	for i := range a.discovery.groups.Groups {
		if group := a.discovery.groups.Groups[i]; group.Name == r.Param("group") {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return a.writeNegotiated(r, &group)
		}
	}
	return a.notFound(r)
}

// discoverVersion serves /api/v1 and /apis/GROUP/VERSION.
func (a *API) discoverVersion(r *request) error {
	list := a.discovery.versions[schema.GroupVersion{Group: r.Param("group"), Version: r.Param("version")}]
	if list == nil {
		return a.unknown(r, r.Param("group"))
	}
	return a.writeNegotiated(r, list)
}

func (a *API) writeNegotiated(r *request, object runtime.Object) error {
	out, ok := negotiate(r.Request(), nil)
	if !ok {
		return notAcceptable(mediaTypes[:]...)
	}
	return a.writeRuntime(r, out, http.StatusOK, object)
}

// noCustomResources tells that nobody has defined kinds of their own: kubectl asks this, without looking at discovery, before
// it says that it doesn't know a kind.
func (a *API) noCustomResources(r *request) error {
	return r.JSON(http.StatusOK, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList", "metadata": map[string]any{"resourceVersion": "0"}, "items": []any{},
	})
}
