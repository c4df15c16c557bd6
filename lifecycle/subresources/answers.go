package subresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
)

// Limits of what is read, far above what anybody means.
const (
	maxOptions = 64 << 10
	maxMachine = 3 << 20
	// maxYAML is less, because reading YAML takes a hundred times its length.
	maxYAML  = 256 << 10
	maxDepth = 100
	// maxMessage bounds an error, which may repeat what a client sent, in bytes.
	maxMessage = 16 << 10
)

// unreadable is what KubeVirt says of a body that it cannot read.
const unreadable = "Can not unmarshal Request body to struct, error: %s"

// read reads a body, whatever its content type, that may be empty.
func read(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", limit))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return nil, status // of the limits on bodies
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return body, nil
}

// decode reads a body of JSON or YAML into a value.
func decode(body []byte, into any) error {
	return decodeBy(kjson.UnmarshalCaseSensitivePreserveInts, body, into)
}

// decodeOptions reads a body of JSON or YAML into options as KubeVirt does: the
// case of keys says nothing, and neither do keys that nobody knows.
func decodeOptions(body []byte, into any) error {
	return decodeBy(json.Unmarshal, body, into)
}

func decodeBy(unmarshal func([]byte, any) error, body []byte, into any) error {
	raw, err := jsonOf(body)
	if err == nil {
		err = unmarshal(raw, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return nil
}

// jsonOf is a body of JSON or YAML as JSON; null for an empty one.
func jsonOf(body []byte) ([]byte, error) {
	if !json.Valid(body) { // YAML does not know all of it
		if err := plain(body); err != nil {
			return nil, err
		}
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, err
		}
	}
	return body, shallow(body)
}

// plain is nil for YAML that is as large as it looks: a few aliases stand for
// any amount of it. It reads without putting anything in their place.
func plain(body []byte) error {
	if len(body) > maxYAML {
		return fmt.Errorf("more than %d bytes of YAML: send JSON", maxYAML)
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(body, &document); err != nil {
		return err
	}
	return spelledOut(&document)
}

func spelledOut(node *yamlv3.Node) error {
	if node.Kind == yamlv3.AliasNode || node.Anchor != "" || node.ShortTag() == "!!merge" {
		return fmt.Errorf("line %d: YAML with anchors, aliases or merge keys: spell it out", node.Line)
	}
	for _, inner := range node.Content {
		if err := spelledOut(inner); err != nil {
			return err
		}
	}
	return nil
}

// shallow is nil for JSON that is not nested deeper than anything is.
func shallow(raw []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > maxDepth {
			return fmt.Errorf("more than %d levels", maxDepth)
		}
	}
	return nil
}

// answer writes a value.
func answer(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		refuse(w, apierrors.NewInternalError(err))
		return
	}
	write(w, http.StatusOK, body)
}

// refuse writes an error as a Status.
func refuse(w http.ResponseWriter, err error) {
	status := responsewriters.ErrorToAPIStatus(err)
	status.Message = presets.Cut(status.Message, maxMessage)
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	write(w, int(status.Code), body)
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left does not hear it
}
