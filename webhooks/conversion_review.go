package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// MaxConversionBytes is how large a ConversionReview may be, which carries
// whole lists of objects. Several copies of it must fit into a replica.
const MaxConversionBytes = 32 << 20

// conversions serves ConversionReviews of VirtualMachines over HTTP.
//
// controller-runtime's handler converts between Go types, which would lose what
// this program does not know of; this one converts JSON.
type conversions struct{}

// ServeHTTP answers one ConversionReview.
func (conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, problem := readBody(w, r, MaxConversionBytes, "ConversionReview")
	if problem != nil {
		refuse(w, problem)
		return
	}
	var review apiextensionsv1.ConversionReview
	err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review)
	if err == nil && (review.Request == nil || review.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || review.Kind != "ConversionReview") {
		err = fmt.Errorf("want apiVersion %s and kind ConversionReview with a request", apiextensionsv1.SchemeGroupVersion)
	}
	if err != nil {
		refuse(w, badRequest("the body is not a ConversionReview: %v", err))
		return
	}
	response := convertAll(r, review.Request)
	response.UID = review.Request.UID
	review.Request, review.Response = nil, response
	write(w, http.StatusOK, &review)
}

// convertAll converts all objects of a request, or none.
func convertAll(r *http.Request, request *apiextensionsv1.ConversionRequest) (response *apiextensionsv1.ConversionResponse) {
	defer func() {
		if reason := recover(); reason != nil {
			ctrl.LoggerFrom(r.Context()).Error(fmt.Errorf("panic: %v", reason), "Conversion panicked", "uid", request.UID, "stack", string(debug.Stack()))
			response = conversionFailed(errors.New("virtwright has a defect and cannot convert; please report it with the log of virtwright-manager"))
		}
	}()
	response = &apiextensionsv1.ConversionResponse{Result: metav1.Status{Status: metav1.StatusSuccess}}
	for i := range request.Objects {
		raw := request.Objects[i].Raw
		request.Objects[i].Raw = nil
		converted, err := convertRaw(raw, request.DesiredAPIVersion)
		if err != nil {
			return conversionFailed(err)
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	return response
}

func convertRaw(raw []byte, version string) ([]byte, error) {
	if err := (&presets.Request{Object: raw}).CheckSize(); err != nil {
		return nil, fmt.Errorf("cannot convert an object: %w", err)
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, fmt.Errorf("cannot read an object: %w", err)
	}
	out, err := conversion.Convert(object, version)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func conversionFailed(err error) *apiextensionsv1.ConversionResponse {
	return &apiextensionsv1.ConversionResponse{Result: metav1.Status{Status: metav1.StatusFailure, Message: presets.Cut(err.Error(), maxMessage)}}
}

// sentVersion is the version in which a request was made, and whether that is
// another than the one that we see.
func sentVersion(req admission.Request) (version string, converted bool) {
	if req.RequestKind == nil || req.RequestKind.Version == req.Kind.Version {
		return "", false
	}
	return req.RequestKind.Group + "/" + req.RequestKind.Version, true
}

// inVersion are problems with the paths of the version in which a request was
// made: the API server has converted the object for us.
func inVersion(req admission.Request, problems field.ErrorList) field.ErrorList {
	version, converted := sentVersion(req)
	if !converted {
		return problems
	}
	for _, problem := range problems {
		problem.Field = conversion.Path(version, problem.Field)
	}
	return problems
}

// warningsIn gives warnings that begin with a path the path of the version that
// was sent.
func warningsIn(req admission.Request, warnings []string) []string {
	version, converted := sentVersion(req)
	if !converted {
		return warnings
	}
	for i, warning := range warnings {
		if path, rest, found := strings.Cut(warning, ": "); found {
			warnings[i] = conversion.Path(version, path) + ": " + rest
		}
	}
	return warnings
}

// readBody reads a body of JSON that was sent with POST. With an error it returns
// what has arrived.
func readBody(w http.ResponseWriter, r *http.Request, most int64, what string) ([]byte, *statusError) {
	if problem := checkHeader(w, r, what); problem != nil {
		return nil, problem
	}
	// A buffer that doubles leaves less garbage behind than io.ReadAll's.
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), 64<<10)+bytes.MinRead))
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	body := buffer.Bytes()
	var tooLarge *http.MaxBytesError
	var status *statusError
	switch {
	case errors.As(err, &status):
		return body, status
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "the %s is larger than %d MiB", what, most>>20)
	case err != nil:
		return nil, badRequest("cannot read the body: %v", err)
	}
	return body, nil
}
