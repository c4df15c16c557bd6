package subresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Limits of what is read, far above what anybody means.
const (
	maxOptions = 64 << 10
	maxMachine = 3 << 20
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
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return body, nil
}

// decode reads a body of JSON or YAML into a value.
func decode(body []byte, into any) error {
	raw, err := jsonOf(body)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf(unreadable, err))
	}
	return nil
}

// jsonOf is a body of JSON or YAML as JSON; null for an empty one.
func jsonOf(body []byte) ([]byte, error) {
	if json.Valid(body) { // YAML does not know all of it
		return body, nil
	}
	return yaml.YAMLToJSON(body)
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
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, int(status.Code), body)
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left does not hear it
}
