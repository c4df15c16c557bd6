package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSubresourceFlags(t *testing.T) {
	off, err := parse([]string{"--subresources-bind-address=0", "--mode=addon"}, io.Discard)
	if err != nil || off.subresources.on() || len(off.subresources.services()) > 0 {
		t.Errorf("want no subresource API, got %+v, %v", off.subresources, err)
	}
	on, err := parse([]string{"--subresources-bind-address=:8443", "--subresources-service=a/b", "--subresources-allow-get"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !on.subresources.on() || !on.subresources.allowGet || !slices.Contains(on.subresources.services(), "v1.subresources.kubevirt.io") {
		t.Errorf("got %+v", on.subresources)
	}
	if !slices.Contains(on.certificateNames(), "b.a.svc") {
		t.Errorf("the certificate must be for the Service, and is for %v", on.certificateNames())
	}
	for args, want := range map[string]string{
		"--subresources-bind-address=:8443 --mode=addon": "is for --mode standalone",
		"--subresources-bind-address=8443":               "invalid --subresources-bind-address",
		"--subresources-service=b":                       "must be NAMESPACE/NAME",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", args, want, err)
		}
	}
}

// Clients parse the version, and warn if it is not their own.
func TestVersionOfKubeVirt(t *testing.T) {
	if got := kubevirtVersion(); !regexp.MustCompile(`^v1\.\d+\.\d+$`).MatchString(got.GitVersion) {
		t.Errorf("want the version of the API that is built in, got %+v", got)
	}
}
