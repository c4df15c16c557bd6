package webhooks

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

func TestSortsBeforeKubeVirt(t *testing.T) {
	const kubevirtConfigurationName = "virt-api-mutator"
	if ConfigurationName >= kubevirtConfigurationName {
		t.Errorf("%s would be called after %s", ConfigurationName, kubevirtConfigurationName)
	}
}

// Every handler is registered and everything registered has a handler.
func TestRegistrationIsComplete(t *testing.T) {
	missing := (&Server{Evictions: Profile{}}).Handlers()
	r := Registration{URL: "https://127.0.0.1:9443/"}
	mutating, validating := r.Configurations()
	var paths []string
	for _, w := range mutating.Webhooks {
		paths = append(paths, *w.ClientConfig.URL)
	}
	for _, w := range validating.Webhooks {
		if slices.Contains(w.Rules[0].Operations, admissionregistrationv1.Delete) {
			continue // it only warns
		}
		paths = append(paths, *w.ClientConfig.URL)
	}
	paths = append(paths, *r.Conversion().Webhook.ClientConfig.URL)
	addon := Registration{URL: r.URL, Guard: protection.Guard{Addon: true}}
	if _, validating := addon.Configurations(); validating != nil {
		paths = append(paths, *validating.Webhooks[len(validating.Webhooks)-1].ClientConfig.URL)
	}
	for _, url := range paths {
		path := strings.TrimPrefix(url, "https://127.0.0.1:9443")
		if missing[path] == nil {
			t.Errorf("%s has no handler or is registered twice", url)
		}
		delete(missing, path)
	}
	if len(missing) > 0 {
		t.Errorf("not registered: %v", missing)
	}
}

// No deletion of a preset depends on a webhook.
func TestDeletionsDoNotDependOnWebhooks(t *testing.T) {
	_, validating := Registration{URL: "https://127.0.0.1:9443/"}.Configurations()
	warns := 0
	for _, w := range validating.Webhooks {
		deletes := slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.Operations, admissionregistrationv1.Delete)
		})
		ignored := *w.FailurePolicy == admissionregistrationv1.Ignore
		if w.Rules[0].Resources[0] == "pods/eviction" {
			if !ignored {
				t.Errorf("%s: evictions depend on it", w.Name)
			}
			continue
		}
		if deletes != ignored {
			t.Errorf("%s: deletions %t, failure ignored %t", w.Name, deletes, ignored)
		}
		if ignored {
			warns++
		}
	}
	if warns != 2 {
		t.Errorf("want a webhook for the deletion of each kind of preset, got %d", warns)
	}
}

func TestServiceReference(t *testing.T) {
	service := &admissionregistrationv1.ServiceReference{Namespace: "virtwright-system", Name: "virtwright-webhook"}
	mutating, _ := Registration{Service: service, CABundle: []byte("ca")}.Configurations()
	got := mutating.Webhooks[0].ClientConfig
	if got.URL != nil || *got.Service.Path != PathMutateVirtualMachine || *got.Service.Port != 443 || string(got.CABundle) != "ca" {
		t.Errorf("got %+v", got)
	}
	if service.Path != nil {
		t.Error("the description must not change")
	}
}

func TestConditionsQuote(t *testing.T) {
	got := notTrusted(protection.Guard{Trusted: []string{`a"b`, `c\d`, "é\n"}}, presets.VirtualMachine).Expression
	if want := `["a\"b","c\\d","é\n"]`; !strings.Contains(got, want) {
		t.Errorf("want %s in %s", want, got)
	}
	if got := notTrusted(protection.Guard{}, presets.VirtualMachine).Expression; !strings.Contains(got, "in [])") {
		t.Errorf("got %s", got)
	}
}

// A new field of the VM's spec must not change without a webhook.
func TestVMSpecFields(t *testing.T) {
	var fields []string
	for f := range reflect.TypeFor[kubevirtv1.VirtualMachineSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "running" && name != "runStrategy" {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	if got := slices.Sorted(slices.Values(vmSpecFields)); !slices.Equal(got, fields) {
		t.Errorf("conditions watch %q, the spec has %q", got, fields)
	}
}
