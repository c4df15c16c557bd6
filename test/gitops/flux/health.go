package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"sigs.k8s.io/yaml"
)

// assess prints the status that a Kustomization with one health check gives to the object on
// standard input, as kustomize-controller finds it.
func assess(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var in struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return err
	}
	object, err := read(os.Stdin)
	if err != nil {
		return err
	}
	evaluator, err := cel.NewStatusEvaluator(&in.Spec.HealthCheckExprs[0].HealthCheckExpressions)
	if err != nil {
		return err
	}
	result, err := evaluator.Evaluate(context.Background(), object)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report{Status: result.Status.String()})
}
