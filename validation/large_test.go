package validation_test

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/validation"
)

// TestLarge checks that an object with very many problems has a short error, and that an object
// with too many parts is not decoded.
func TestLarge(t *testing.T) {
	object := func(count int) []byte {
		return []byte(`{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[` + strings.Repeat(`{},`, count) + `{}]}}}}`)
	}
	m, err := validation.NewVirtualMachineInstance(object(90_000))
	if err != nil {
		t.Fatal(err)
	}
	if found := (&validation.Config{}).Validate(m).Errors; len(found) != validation.MaxProblems+1 || !strings.Contains(found[validation.MaxProblems].Error(), "and 89937 more problems") {
		t.Errorf("got %d problems, the last is %v", len(found), found[len(found)-1])
	}
	if _, err := validation.NewVirtualMachineInstance(object(1 << 20)); err == nil || !strings.Contains(err.Error(), "more than 100000 parts") {
		t.Errorf("got %v", err)
	}
}

// TestLargeUpdate checks that problems above the limits ratchet too.
func TestLargeUpdate(t *testing.T) {
	object := func(count int) *validation.ExpandedVM {
		m, err := validation.NewVirtualMachineInstance([]byte(`{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[` + strings.Repeat(`{},`, count) + `{}]}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for count, rejected := range map[int]bool{1990: false, 2000: false, 2001: true} {
		m := object(count)
		m.Old = object(2000)
		if found := (&validation.Config{}).Validate(m).Errors; (len(found) > 0) != rejected {
			t.Errorf("%d disks instead of 2000: %v", count, found)
		}
	}
}
