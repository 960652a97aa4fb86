package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// media is one of the three encodings of objects.
type media int

const (
	mediaJSON media = iota
	mediaYAML
	mediaProtobuf
)

var mediaTypes = [...]string{mediaJSON: "application/json", mediaYAML: "application/yaml", mediaProtobuf: "application/vnd.kubernetes.protobuf"}

func (m media) String() string { return mediaTypes[m] }

// output is what a client wants an answer to look like. The zero value is plain JSON of the object itself.
type output struct {
	media  media
	pretty bool
	// convert is the kind that the object shall be shown as: none, Table or PartialObjectMetadata(List) of a version of meta,
	// or a form of discovery.
	convert schema.GroupVersionKind
}

// acceptable tells whether a path can answer in this form.
type acceptable func(out output) bool

// negotiate finds the first form that the client accepts and the path has; what is nil stands for no conversion.
func negotiate(r *http.Request, what acceptable) (output, bool) {
	header := r.Header.Get("Accept")
	pretty := wantsPretty(r)
	if header == "" || header == "*/*" || header == "application/json" {
		return output{pretty: pretty}, true
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for m, name := range mediaTypes {
			kind, sub, _ := strings.Cut(name, "/")
			if clause.Type != kind && clause.Type != "*" || clause.SubType != sub && clause.SubType != "*" {
				continue
			}
			out := output{
				media: media(m), pretty: pretty || clause.Params["pretty"] == "1",
				convert: schema.GroupVersionKind{Group: clause.Params["g"], Version: clause.Params["v"], Kind: clause.Params["as"]},
			}
			if stream := clause.Params["stream"]; stream != "" && stream != "watch" {
				continue
			}
			if out.convert.Empty() || what != nil && what(out) {
				return out, true
			}
		}
	}
	return output{}, false
}

// wantsPretty tells whether a person reads the answer: when asked so, or when the client is one that people use by hand.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if value := r.URL.Query().Get("pretty"); value != "" {
			pretty, _ := strconv.ParseBool(value)
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// negotiateObject settles what the answer of a resource's handler looks like.
func (r *request) negotiateObject() error {
	out, ok := negotiate(r.Request(), objectForms)
	if !ok {
		return notAcceptable(mediaTypes[:]...)
	}
	r.out = out
	return nil
}

// negotiateStream is the same for watches, which YAML has no framing for.
func (r *request) negotiateStream() error {
	out, ok := negotiate(r.Request(), objectForms)
	if !ok || out.media == mediaYAML {
		return notAcceptable(mediaJSON.String()+";stream=watch", mediaProtobuf.String()+";stream=watch")
	}
	r.out = out
	return nil
}

const kindTable = "Table"

func objectForms(out output) bool {
	if gv := out.convert.GroupVersion(); gv != metav1.SchemeGroupVersion && gv != metav1beta1.SchemeGroupVersion {
		return false
	}
	switch out.convert.Kind {
	case kindTable:
		return out.media != mediaProtobuf
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return true
	}
	return false
}
