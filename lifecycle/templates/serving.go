package templates

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// Discovery asks API servers what they serve, each time anew: the API of
// templates may come and go, and on OpenShift no CRD tells of it.
type Discovery struct {
	Client rest.Interface
}

var _ Serving = Discovery{}

// Serves asks for the resources of the format's group and version.
func (d Discovery) Serves(ctx context.Context, format sspv1alpha1.Format) (string, error) {
	version := format.Kind.GroupVersion()
	if version.Group == "" {
		return "", nil // of Kubernetes' own
	}
	var list metav1.APIResourceList
	err := d.Client.Get().AbsPath("/apis", version.Group, version.Version).SetHeader("Accept", "application/json").Do(ctx).Into(&list)
	switch {
	case apierrors.IsNotFound(err):
		return version.String(), nil
	case err != nil:
		return "", fmt.Errorf("cannot ask whether %s is served: %w", version, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == format.Resource {
			return "", nil
		}
	}
	return format.Resource + " of " + version.String(), nil
}

// A Choice chooses the format of a template where a request names none.
type Choice struct {
	Serving Serving
	// Formats are the names of those that are made, the preferred ones first.
	Formats []string
}

// Choose returns the name of the first format that API servers serve, or the reason why there is
// none. A ConfigMap shows the VM to every reader of ConfigMaps, so it is chosen only where the
// administrator put it first.
func (c Choice) Choose(ctx context.Context) (name, problem string, err error) {
	var lacking []string
	for i, name := range c.Formats {
		format, known := sspv1alpha1.FormatNamed(name)
		if !known || name == sspv1alpha1.FormatConfigMap && i > 0 {
			continue
		}
		lack, err := c.Serving.Serves(ctx, format)
		if err != nil || lack == "" {
			return name, "", err
		}
		lacking = append(lacking, format.Kind.Kind+" of "+format.Kind.GroupVersion().String())
	}
	return "", "this cluster does not serve " + strings.Join(lacking, " or "), nil
}
