package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestRejections formats equal reasons of several VMs equally.
func TestRejections(t *testing.T) {
	kind := schema.GroupKind{Group: "kubevirt.io", Kind: "VirtualMachine"}
	rejection := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Forbidden(field.NewPath("spec", "b"), "no"), field.Required(field.NewPath("spec", "a"), "")})
	want := []string{"spec.a: Required value", "spec.b: Forbidden: no"}
	if diff := cmp.Diff(want, rejections(rejection)); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachines"}, "web", context.Canceled)
	if got := rejections(quota); len(got) != 1 || got[0] != quota.Error() {
		t.Errorf("got %q", got)
	}
}

func TestNamesPreset(t *testing.T) {
	for text, want := range map[string][2]bool{
		"spec.a: Forbidden: no (preset small)":                {true, false},
		"presets big and small disagree":                      {true, false},
		"spec.a: Forbidden: no (set by preset cluster/small)": {false, true},
		"use cluster/small.":                                  {false, true},
		"a small VM":                                          {false, false},
		"preset smaller, preset cluster/smaller":              {false, false},
	} {
		if got := [2]bool{namesPreset(text, "small"), namesPreset(text, "cluster/small")}; got != want {
			t.Errorf("%s: want %v, got %v", text, want, got)
		}
	}
}
