package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"sigs.k8s.io/yaml"
)

// healthKey is what keys of health checks in argocd-cm begin with. GROUP_KIND follows.
const healthKey = "resource.customizations.health."

// assess prints the health that argocd-cm gives to the object on standard input.
func assess(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var in struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return err
	}
	overrides := lua.ResourceHealthOverrides{}
	for key, script := range in.Data {
		if kind, is := strings.CutPrefix(key, healthKey); is {
			overrides[strings.Replace(kind, "_", "/", 1)] = v1alpha1.ResourceOverride{HealthLua: script}
		}
	}
	object, err := read(os.Stdin)
	if err != nil {
		return err
	}
	health, err := overrides.GetResourceHealth(object)
	if err != nil {
		return err
	}
	if health == nil {
		return errors.New("no health check is about the object")
	}
	return json.NewEncoder(os.Stdout).Encode(report{Status: string(health.Status)})
}
