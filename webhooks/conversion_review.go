package webhooks

import (
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
	"sigs.k8s.io/controller-runtime/pkg/log"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// maxConversionBytes is the maximum size of a ConversionReview, which may hold a list of objects.
// Several copies must fit into the memory of a replica.
const maxConversionBytes = 32 << 20

// conversions serves ConversionReviews of VirtualMachines over HTTP.
//
// controller-runtime's handler converts between Go types, which lose unknown fields; this one
// converts JSON.
type conversions struct{}

// ServeHTTP answers one ConversionReview.
func (conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, rejection := readBody(w, r, maxConversionBytes, "ConversionReview")
	if rejection != nil {
		writeError(w, rejection)
		return
	}
	var review apiextensionsv1.ConversionReview
	err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review)
	if err == nil && (review.Request == nil || review.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || review.Kind != "ConversionReview") {
		err = fmt.Errorf("want apiVersion %s and kind ConversionReview with a request", apiextensionsv1.SchemeGroupVersion)
	}
	if err != nil {
		writeError(w, badRequest("the body is not a ConversionReview: %v", err))
		return
	}
	response := convertAll(r, review.Request)
	response.UID = review.Request.UID
	review.Request, review.Response = nil, response
	writeJSON(w, http.StatusOK, &review)
}

// convertAll converts all objects of a request, or none.
func convertAll(r *http.Request, request *apiextensionsv1.ConversionRequest) (response *apiextensionsv1.ConversionResponse) {
	defer func() {
		if reason := recover(); reason != nil {
			log.FromContext(r.Context()).Error(fmt.Errorf("panic: %v", reason), "Conversion panicked", "uid", request.UID, "stack", string(debug.Stack()))
			response = conversionFailed(errors.New("virtwright has a bug and cannot convert; please report it with the log of virtwright-manager"))
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
	return &apiextensionsv1.ConversionResponse{Result: metav1.Status{Status: metav1.StatusFailure, Message: presets.Escape(tree.Truncate(err.Error(), maxMessage))}}
}

// sentVersion returns the version in which a request was made, and whether the API server has
// converted the object for the webhook.
func sentVersion(req Request) (version string, converted bool) {
	if req.RequestKind == nil || req.RequestKind.Version == req.Kind.Version {
		return "", false
	}
	return req.RequestKind.Group + "/" + req.RequestKind.Version, true
}

// inVersion changes the paths of problems to the version in which a request was made.
func inVersion(req Request, problems field.ErrorList) field.ErrorList {
	version, converted := sentVersion(req)
	if !converted {
		return problems
	}
	for _, problem := range problems {
		problem.Field = conversion.Path(version, problem.Field)
	}
	return problems
}

// warningsIn changes the paths of warnings to the version in which a request was made.
func warningsIn(req Request, warnings []string) []string {
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
