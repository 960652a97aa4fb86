package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

// Headers by which an administrator asks to be treated as somebody else, as kubectl --as does.
const (
	headerAsUser  = "Impersonate-User"
	headerAsGroup = "Impersonate-Group"
	headerAsUID   = "Impersonate-Uid"
	headerAsExtra = "Impersonate-Extra-"
)

// impersonate returns whom the caller wants to be treated as: itself, unless its headers name another. Only masters may.
func impersonate(caller registry.Caller, header http.Header) (registry.Caller, error) {
	as := registry.Caller{Name: header.Get(headerAsUser), UID: header.Get(headerAsUID), Groups: slices.Clone(header[headerAsGroup])}
	for name, values := range header {
		if key, ok := strings.CutPrefix(name, headerAsExtra); ok {
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			as.Extra[strings.ToLower(key)] = slices.Clone(values)
		}
	}
	if as.Name == "" {
		if as.UID != "" || len(as.Groups) > 0 || len(as.Extra) > 0 {
			return caller, badRequest("requested %v without impersonating a user", header[headerAsGroup])
		}
		return caller, nil
	}
	if !slices.Contains(caller.Groups, groupMasters) {
		return caller, apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, as.Name,
			fmt.Errorf("%s", escape(fmt.Sprintf("User %q cannot impersonate resource %q in API group %q at the cluster scope", caller.Name, "users", ""))))
	}
	group := groupAuthenticated
	if as.Name == userAnonymous {
		group = groupUnauthenticated
	}
	if !slices.Contains(as.Groups, group) {
		as.Groups = append(as.Groups, group)
	}
	return as, nil
}
