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

// Discovery looks up APIs in API servers. It caches nothing, because the API of templates can be
// installed and removed, on OpenShift without a CRD that could be watched.
type Discovery struct{ Client rest.Interface }

// Find returns the format in the preferred version that API servers serve, or the resource or
// version that they lack.
func (d Discovery) Find(ctx context.Context, format sspv1alpha1.Format) (found sspv1alpha1.Format, missing string, err error) {
	for _, candidate := range format.InEachVersion() {
		if missing, err = d.missing(ctx, candidate); err != nil || missing == "" {
			return candidate, "", err
		}
	}
	return format, missing, nil
}

func (d Discovery) missing(ctx context.Context, format sspv1alpha1.Format) (string, error) {
	version := format.Kind.GroupVersion()
	if version.Group == "" {
		return "", nil // the core group is always served
	}
	var list metav1.APIResourceList
	err := d.Client.Get().AbsPath("/apis", version.Group, version.Version).SetHeader("Accept", "application/json").Do(ctx).Into(&list)
	switch {
	case apierrors.IsNotFound(err):
		return version.String(), nil
	case err != nil:
		return "", fmt.Errorf("cannot find out whether %s is served: %w", version, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == format.Resource {
			return "", nil
		}
	}
	return format.Resource + " of " + version.String(), nil
}

// A FormatChooser chooses the format for requests that name none.
type FormatChooser struct {
	Discovery discovery
	Formats   []string // the names of the enabled formats, the preferred ones first
}

// Choose returns the name of the first format that API servers serve, or why there is none. Every
// reader of ConfigMaps would see the VM in a ConfigMap, so configMap is chosen only if the
// administrator put it first.
func (c FormatChooser) Choose(ctx context.Context) (name, problem string, err error) {
	var missing []string
	for i, name := range c.Formats {
		format, known := sspv1alpha1.FormatNamed(name)
		if !known || name == sspv1alpha1.FormatConfigMap && i > 0 {
			continue
		}
		_, lacks, err := c.Discovery.Find(ctx, format)
		if err != nil || lacks == "" {
			return name, "", err
		}
		missing = append(missing, format.Kind.Kind+" of "+format.Kind.GroupVersion().String())
	}
	return "", "this cluster does not serve " + strings.Join(missing, " or "), nil
}
