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
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// Limits of request bodies, far above realistic sizes.
const (
	maxOptions = 64 << 10
	maxVM      = 3 << 20
	maxYAML    = 256 << 10 // lower, because parsing YAML takes a hundred times its length
	maxDepth   = 100
	// maxMessage bounds an error in bytes. Errors may repeat the request.
	maxMessage = 16 << 10
)

// unreadable is KubeVirt's error for a body that cannot be decoded.
const unreadable = "Can not unmarshal Request body to struct, error: %s"

// read returns a body of any content type, which may be empty.
func read(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", limit))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return nil, status // from a limit on bodies
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return body, nil
}

// decodeOptions decodes JSON or YAML like KubeVirt: it ignores the case of keys, and unknown keys.
func decodeOptions(body []byte, into any) error { return decode(json.Unmarshal, body, into) }

func decode(unmarshal func([]byte, any) error, body []byte, into any) error {
	raw, err := jsonOf(body)
	if err == nil {
		err = unmarshal(raw, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return nil
}

// jsonOf converts JSON or YAML to JSON; an empty body is null.
func jsonOf(body []byte) ([]byte, error) {
	if !json.Valid(body) { // not all JSON is YAML
		if err := checkYAML(body); err != nil {
			return nil, err
		}
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, err
		}
	}
	return body, checkDepth(body)
}

// checkYAML rejects large YAML, and YAML with aliases, which could expand to any size.
func checkYAML(body []byte) error {
	if len(body) > maxYAML {
		return fmt.Errorf("YAML is longer than %d bytes: send JSON", maxYAML)
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(body, &document); err != nil {
		return err
	}
	return checkNoAliases(&document)
}

func checkNoAliases(node *yamlv3.Node) error {
	if node.Kind == yamlv3.AliasNode || node.Anchor != "" || node.ShortTag() == "!!merge" {
		return fmt.Errorf("line %d: YAML anchors, aliases and merge keys are not supported: write the values out", node.Line)
	}
	for _, inner := range node.Content {
		if err := checkNoAliases(inner); err != nil {
			return err
		}
	}
	return nil
}

func checkDepth(raw []byte) error {
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
			return fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
	}
	return nil
}

func answer(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		reject(w, apierrors.NewInternalError(err))
		return
	}
	write(w, http.StatusOK, body)
}

func reject(w http.ResponseWriter, err error) {
	status := responsewriters.ErrorToAPIStatus(err)
	status.Message = tree.Truncate(status.Message, maxMessage)
	presets.EscapeStatus(status)
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
	_, _ = w.Write(body) // the client may have disconnected
}
