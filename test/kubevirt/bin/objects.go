package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/version"
	"sigs.k8s.io/yaml"

	"kubevirt.io/kubevirt/pkg/virt-config/featuregate"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
	operatorutil "kubevirt.io/kubevirt/pkg/virt-operator/util"
)

// namespace is that of KubeVirt.
const namespace = "kubevirt"

// lifetime is how long the certificates are valid.
var lifetime = metav1.Duration{Duration: 24 * time.Hour}

// writeObjects is the program kubevirt-objects: it writes what virt-operator applies into a folder,
// one file for each step of an installation, and the certificates as files.
func writeObjects() int {
	flags := flag.NewFlagSet("kubevirt-objects", flag.ExitOnError)
	folder := flags.String("o", ".", "folder to write to")
	gates := flags.String("gates", "", "print the defaults of these feature gates instead, separated by commas")
	_ = flags.Parse(os.Args[1:]) // ends the program where it fails
	if *gates != "" {
		return printGates(strings.Split(*gates, ","))
	}
	if err := generate(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write KubeVirt's objects:", err)
		return 1
	}
	return 0
}

// printGates prints which feature gates are enabled by default, as JSON. Unknown ones are disabled.
func printGates(names []string) int {
	out := map[string]bool{}
	for _, name := range names {
		gate := featuregate.FeatureGateInfo(name)
		out[name] = gate != nil && (gate.State == featuregate.Beta || gate.State == featuregate.GA)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return 1
	}
	return 0
}

func generate(folder string) error {
	version := version.Get().GitVersion
	// virt-operator reads its own version from its environment.
	err := errors.Join(os.Setenv("KUBEVIRT_VERSION", version),
		os.Setenv("VIRT_OPERATOR_IMAGE", "quay.io/kubevirt/virt-operator:"+version))
	if err != nil {
		return err
	}
	kubevirt := &v1.KubeVirt{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "KubeVirt"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt"},
	}
	strategy, err := install.GenerateCurrentInstallStrategy(operatorutil.GetTargetConfigFromKV(kubevirt), "", namespace)
	if err != nil {
		return err
	}
	definition, err := components.NewKubeVirtCrd()
	if err != nil {
		return err
	}
	secrets, bundle, err := certificates()
	if err != nil {
		return err
	}
	trust(strategy, bundle)
	files := map[string][]any{
		"crds":          slices.Concat(objects(strategy.CRDs()), []any{definition}, storageAPIs()),
		"rights":        slices.Concat(objects(strategy.ServiceAccounts()), objects(strategy.ClusterRoles()), objects(strategy.ClusterRoleBindings()), objects(strategy.Roles()), objects(strategy.RoleBindings())),
		"base":          slices.Concat(objects(strategy.Services()), objects(secrets), objects(bundles(bundle)), []any{components.NewKubeVirtPriorityClassCR()}),
		"webhooks":      slices.Concat(objects(strategy.MutatingWebhookConfigurations()), objects(strategy.ValidatingWebhookConfigurations()), objects(strategy.ValidatingAdmissionPolicies()), objects(strategy.ValidatingAdmissionPolicyBindings()), objects(strategy.APIServices())),
		"instancetypes": slices.Concat(objects(strategy.Instancetypes()), objects(strategy.Preferences())),
	}
	for name, list := range files {
		if err := write(filepath.Join(folder, name+".yaml"), list); err != nil {
			return err
		}
	}
	for _, secret := range secrets {
		for key, content := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, secret.Name+"-"+key), content, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// certificates are KubeVirt's secrets, and the PEM of the CA that signed them.
func certificates() (secrets []*corev1.Secret, bundle []byte, err error) {
	var ca *tls.Certificate
	for _, secret := range components.NewCACertSecrets(namespace) {
		if err := components.PopulateSecretWithCertificate(secret, nil, &lifetime); err != nil {
			return nil, nil, err
		}
		if secret.Name == components.KubeVirtCASecretName {
			bundle = secret.Data[corev1.TLSCertKey]
			if ca, err = components.LoadCertificates(secret); err != nil {
				return nil, nil, err
			}
		}
		secrets = append(secrets, secret)
	}
	for _, secret := range components.NewCertSecrets(namespace, namespace) {
		if err := components.PopulateSecretWithCertificate(secret, ca, &lifetime); err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, bundle, nil
}

// bundles are the ConfigMaps in which KubeVirt's components find the CAs they trust.
func bundles(bundle []byte) []*corev1.ConfigMap {
	maps := components.NewCAConfigMaps(namespace)
	for _, m := range maps {
		m.Data = map[string]string{components.CABundleKey: ""}
		if m.Name == components.KubeVirtCASecretName {
			m.Data[components.CABundleKey] = string(bundle)
		}
	}
	return maps
}

// trust gives the CA to everything that calls KubeVirt.
func trust(strategy install.StrategyInterface, bundle []byte) {
	for _, config := range strategy.MutatingWebhookConfigurations() {
		for i := range config.Webhooks {
			config.Webhooks[i].ClientConfig.CABundle = bundle
		}
	}
	for _, config := range strategy.ValidatingWebhookConfigurations() {
		for i := range config.Webhooks {
			config.Webhooks[i].ClientConfig.CABundle = bundle
		}
	}
	for _, service := range strategy.APIServices() {
		service.Spec.CABundle = bundle
	}
}

// storageAPIs are stand-ins for the CRDs of CDI and of the snapshot controller. virt-api and
// virt-controller end when CDI's appear later.
func storageAPIs() []any {
	namespaced, cluster := apiextensionsv1.NamespaceScoped, apiextensionsv1.ClusterScoped
	var out []any
	for _, kind := range []struct {
		group, version, kind, plural string
		scope                        apiextensionsv1.ResourceScope
	}{
		{"cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes", namespaced},
		{"cdi.kubevirt.io", "v1beta1", "DataSource", "datasources", namespaced},
		{"cdi.kubevirt.io", "v1beta1", "VolumeCloneSource", "volumeclonesources", namespaced},
		{"cdi.kubevirt.io", "v1beta1", "VolumeImportSource", "volumeimportsources", namespaced},
		{"cdi.kubevirt.io", "v1beta1", "CDI", "cdis", cluster},
		{"cdi.kubevirt.io", "v1beta1", "CDIConfig", "cdiconfigs", cluster},
		{"cdi.kubevirt.io", "v1beta1", "StorageProfile", "storageprofiles", cluster},
		{"snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots", namespaced},
		{"snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass", "volumesnapshotclasses", cluster},
		{"snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent", "volumesnapshotcontents", cluster},
	} {
		preserve := true
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{
				Name:        kind.plural + "." + kind.group,
				Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for tests"},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: kind.group, Scope: kind.scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{
					Kind: kind.kind, ListKind: kind.kind + "List", Plural: kind.plural, Singular: strings.ToLower(kind.kind),
				},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: kind.version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
				}},
			},
		})
	}
	return out
}

// objects are a list without its type.
func objects[T any](list []T) []any {
	var out []any
	for _, object := range list {
		out = append(out, object)
	}
	return out
}

// write writes the objects that can be installed as YAML.
func write(file string, list []any) error {
	var out bytes.Buffer
	for _, object := range list {
		raw, err := json.Marshal(object)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &u.Object); err != nil {
			return err
		}
		if servedElsewhere(u) {
			continue
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(u.Object, "status")
		if u.GetAPIVersion() == "v1" && strings.HasPrefix(u.GetKind(), "ValidatingAdmissionPolicy") {
			u.SetAPIVersion(admissionv1.SchemeGroupVersion.String()) // the group is missing in v1.9.0
		}
		manifest, err := yaml.Marshal(u.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "---\n%s", manifest)
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// servedElsewhere reports whether a program that does not run here serves the object: virt-operator
// or the template API. A webhook without its server rejects every request, and an APIService
// without one keeps namespaces from being deleted.
func servedElsewhere(u *unstructured.Unstructured) bool {
	name := u.GetName()
	return name == components.KubeVirtOperatorValidatingWebhookName || name == components.VirtLauncherPodMutatingWebhookName ||
		strings.Contains(name, "virt-template") || strings.Contains(name, "template.kubevirt.io")
}
