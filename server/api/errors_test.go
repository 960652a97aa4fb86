package api

import (
	"strings"
	"testing"
)

func status(reason, message string, code string, details string) string {
	return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":` + message + `,"reason":"` + reason + `",` + details + `"code":` + code + "}\n"
}

// The bodies are those of Kubernetes, byte for byte.
func TestErrorsAreThoseOfKubernetes(t *testing.T) {
	c := newCluster(t, func(config *Config) { config.Limits.Body = 4096 })
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("taken")})
	for _, test := range []struct {
		name string
		call call
		code int
		want string
	}{
		{
			"absent object",
			call{path: podsPath + "/none"},
			404,
			status("NotFound", `"pods \"none\" not found"`, "404", `"details":{"name":"none","kind":"pods"},`),
		},
		{
			"unknown resource of a known group",
			call{path: "/api/v1/namespaces/default/widgets"},
			404,
			status("NotFound", `"the server could not find the requested resource"`, "404", `"details":{},`),
		},
		{
			"unknown subresource",
			call{path: podsPath + "/taken/shoes"},
			404,
			status("NotFound", `"the server could not find the requested resource"`, "404", `"details":{},`),
		},
		{
			"stream to a container",
			call{method: "POST", path: podsPath + "/taken/exec"},
			404,
			status("NotFound", `"pods/exec is not served by edgepod yet"`, "404", ""),
		},
		{
			"namespaced object without namespace",
			call{path: "/api/v1/pods/taken"},
			404,
			status("NotFound", `"the server could not find the requested resource"`, "404", `"details":{},`),
		},
		{"unknown group", call{path: "/apis/acme.example/v1/widgets"}, 404, "404 page not found\n"},
		{"unknown path", call{path: "/nothing/here"}, 404, "404 page not found\n"},
		{"write to an unknown path", call{method: "POST", path: "/nothing/here", body: "{}"}, 404, "404 page not found\n"},
		{
			"unknown version of a known group",
			call{path: "/apis/coordination.k8s.io/v9"},
			404,
			status("NotFound", `"the server could not find the requested resource"`, "404", `"details":{},`),
		},
		{
			"resource in an unknown version of a known group",
			call{path: "/api/v2/namespaces/default/pods"},
			404,
			status("NotFound", `"the server could not find the requested resource"`, "404", `"details":{},`),
		},
		{
			"object at an unreadable revision",
			call{path: podsPath + "/taken?resourceVersion=new"},
			400,
			status("BadRequest", `"resourceVersion: Invalid value: \"new\": must be a number that a list or an object carried"`, "400", ""),
		},
		{
			"wrong verb on a collection",
			call{method: "PUT", path: podsPath, body: podJSON("x")},
			405,
			status("MethodNotAllowed", `"the server does not allow this method on the requested resource"`, "405", `"details":{},`),
		},
		{
			"create in all namespaces",
			call{method: "POST", path: "/api/v1/pods", body: podJSON("x")},
			405,
			status("MethodNotAllowed", `"the server does not allow this method on the requested resource"`, "405", `"details":{},`),
		},
		{
			"nothing acceptable",
			call{path: podsPath, header: map[string]string{"Accept": "text/html"}},
			406,
			status("NotAcceptable", `"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"`, "406", ""),
		},
		{
			"watch in YAML",
			call{path: podsPath + "?watch=true", header: map[string]string{"Accept": "application/yaml"}},
			406,
			"apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media types are accepted: application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'\nmetadata: {}\nreason: NotAcceptable\nstatus: Failure\n",
		},
		{
			"body of an unknown type",
			call{method: "POST", path: podsPath, body: "x", header: map[string]string{"Content-Type": "text/plain"}},
			415,
			status("UnsupportedMediaType", `"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"`, "415", ""),
		},
		{
			"server-side apply",
			call{method: "PATCH", path: podsPath + "/taken", body: "{}", header: map[string]string{"Content-Type": "application/apply-patch+yaml"}},
			415,
			status("UnsupportedMediaType", `"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"`, "415", ""),
		},
		{
			"name taken",
			call{method: "POST", path: podsPath, body: podJSON("taken")},
			409,
			status("AlreadyExists", `"pods \"taken\" already exists"`, "409", `"details":{"name":"taken","kind":"pods"},`),
		},
		{
			"another kind",
			call{method: "POST", path: podsPath, body: configMapJSON("x", "y")},
			400,
			status("BadRequest", `"ConfigMap in version \"v1\" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): unknown conversion"`, "400", ""),
		},
		{
			"another version",
			call{method: "POST", path: podsPath, body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}`},
			400,
			status("BadRequest", `"the API version in the data (coordination.k8s.io/v1) does not match the expected API version (v1)"`, "400", ""),
		},
		{
			"not JSON",
			call{method: "POST", path: podsPath, body: "{ nonsense"},
			400,
			status("BadRequest", `"the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: invalid character 'n' looking for beginning of object key string ({ nonsense)"`, "400", ""),
		},
		{
			"empty body",
			call{method: "POST", path: podsPath, header: map[string]string{"Content-Type": "application/json"}},
			400,
			status("BadRequest", `"the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input (\u003cempty\u003e)"`, "400", ""),
		},
		{
			"other namespace",
			call{method: "POST", path: podsPath, body: strings.Replace(podJSON("x"), `"name":"x"`, `"name":"x","namespace":"other"`, 1)},
			400,
			status("BadRequest", `"the namespace of the provided object does not match the namespace sent on the request"`, "400", ""),
		},
		{
			"other name",
			call{method: "PUT", path: podsPath + "/taken", body: podJSON("x")},
			400,
			status("BadRequest", `"the name of the object (x) does not match the name on the URL (taken)"`, "400", ""),
		},
		{
			"no name",
			call{method: "PUT", path: configMapsPath + "/x", body: "{}"},
			400,
			status("BadRequest", `"the name of the object (x based on URL) was undeterminable: name must be provided"`, "400", ""),
		},
		{
			"too large",
			call{method: "POST", path: podsPath, body: podJSON(strings.Repeat("x", 5000))},
			413,
			status("RequestEntityTooLarge", `"Request entity too large: limit is 4096"`, "413", ""),
		},
		{
			"unknown field, strict",
			call{method: "POST", path: podsPath + "?fieldValidation=Strict", body: strings.Replace(podJSON("x"), `"spec":{`, `"spec":{"shoes":2,`, 1)},
			400,
			status("BadRequest", `"Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.shoes\""`, "400", ""),
		},
		{
			"unknown dry run",
			call{method: "POST", path: podsPath + "?dryRun=Some", body: podJSON("x")},
			422,
			status("Invalid", `"CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""`, "422",
				`"details":{"group":"meta.k8s.io","kind":"CreateOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: [\"Some\"]: supported values: \"All\"","field":"dryRun"}]},`),
		},
		{
			"match without version",
			call{path: podsPath + "?resourceVersionMatch=Exact"},
			422,
			status("Invalid", `"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"`, "422",
				`"details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","field":"resourceVersionMatch"}]},`),
		},
		{
			"failed test of a JSON patch",
			call{method: "PATCH", path: podsPath + "/taken", body: `[{"op":"test","path":"/kind","value":"Node"}]`, header: map[string]string{"Content-Type": "application/json-patch+json"}},
			422,
			status("Invalid", `"the server rejected our request due to an error in our request"`, "422", `"details":{},`),
		},
		{
			"no credentials",
			call{path: podsPath, token: "none"},
			403,
			status("Forbidden", `"pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""`, "403", `"details":{"kind":"pods"},`),
		},
		{
			"no credentials, no resource",
			call{path: "/api", token: "none"},
			403,
			status("Forbidden", `"forbidden: User \"system:anonymous\" cannot get path \"/api\""`, "403", `"details":{},`),
		},
		{
			"bad token",
			call{path: "/version", token: "wrong"},
			401,
			status("Unauthorized", `"Unauthorized"`, "401", ""),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := c.do(test.call)
			if w.Code != test.code || w.Body.String() != test.want {
				t.Errorf("got %d\n%s\nwant %d\n%s", w.Code, w.Body, test.code, test.want)
			}
		})
	}
}
