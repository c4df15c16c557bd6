package chart

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	webhooksOf = "webhookconfiguration/admission.virtwright.dev"
	converted  = "crd/virtualmachines.kubevirt.io"
	aggregated = "apiservice/v1.subresources.kubevirt.io"
	// takeover calls the manager for every ClusterRoleBinding, which it could then change.
	takeover = `{"name":"takeover.virtwright.dev","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"service":{"namespace":"virtwright-system","name":"virtwright-webhooks"}},` +
		`"rules":[{"operations":["CREATE"],"apiGroups":["rbac.authorization.k8s.io"],"apiVersions":["v1"],"resources":["clusterrolebindings"]}]}`
)

// forbiddenPatches are changes that would give the manager more than its own webhooks, by object:
// with one it could make itself cluster-admin.
var forbiddenPatches = map[string][]string{
	"mutating" + webhooksOf: {
		`{"op":"add","path":"/webhooks/-","value":` + takeover + `}`,
		`{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}`,
		`{"op":"remove","path":"/webhooks/0/matchConditions"}`,
		`{"op":"remove","path":"/webhooks/0"}`,
		`{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}`,
		`{"op":"replace","path":"/webhooks/0/reinvocationPolicy","value":"IfNeeded"}`,
		`{"op":"replace","path":"/webhooks/0/clientConfig/service/name","value":"other"}`,
		`{"op":"replace","path":"/webhooks/0/namespaceSelector","value":{}}`,
		`{"op":"add","path":"/metadata/annotations/x","value":"y"}`,
		`{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}`,
		`{"op":"remove","path":"/metadata/labels/helm.sh~1chart"}`,
	},
	"validating" + webhooksOf: {
		`{"op":"add","path":"/webhooks/-","value":` + takeover + `}`,
		`{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}`,
		`{"op":"remove","path":"/webhooks/0"}`,
	},
	converted: {
		`{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}`,
		`{"op":"replace","path":"/spec/conversion/webhook/clientConfig/service/name","value":"other"}`,
		`{"op":"replace","path":"/spec/versions/0/schema","value":{"openAPIV3Schema":{"type":"object"}}}`,
		`{"op":"add","path":"/spec/names/shortNames/-","value":"x"}`,
		`{"op":"add","path":"/metadata/labels/x","value":"y"}`,
	},
	aggregated: {
		`{"op":"replace","path":"/spec/service/name","value":"other"}`,
		`{"op":"replace","path":"/spec/groupPriorityMinimum","value":20000}`,
		`{"op":"add","path":"/metadata/labels/x","value":"y"}`,
	},
}

// caBundles are the only fields that the manager may change.
var caBundles = map[string]string{
	"mutating" + webhooksOf:   "/webhooks/0/clientConfig/caBundle",
	"validating" + webhooksOf: "/webhooks/0/clientConfig/caBundle",
	converted:                 "/spec/conversion/webhook/clientConfig/caBundle",
	aggregated:                "/spec/caBundle",
}

// tryAsManager patches an object by the manager's rights, in a dry run.
func (i *installed) tryAsManager(object, operation string) error {
	return i.Try("", "patch", object, "--type=json", "--dry-run=server", "-p", "["+operation+"]",
		"--as=system:serviceaccount:"+namespace+":"+release, "--as-group=system:serviceaccounts", "--as-group=system:authenticated")
}

// isConfined checks that the manager changes CA bundles and nothing else of what API servers know
// of it, if it writes the bundles; otherwise that it changes nothing.
func (i *installed) isConfined(bundles bool) {
	i.Helper()
	why := "may change caBundle only"
	if !bundles {
		why = "cannot patch resource"
	}
	rejected := func(object, operation string) error {
		if err := i.tryAsManager(object, operation); err == nil || !strings.Contains(err.Error(), why) {
			return fmt.Errorf("%s %s: want a rejection with %q, got %v", object, operation, why, err) //nolint:errorlint // nil is an answer
		}
		return nil
	}
	_ = wait.PollUntilContextTimeout(i.Context(), 200*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return rejected(converted, forbiddenPatches[converted][0]) == nil, nil // API servers learn of policies a moment later
	})
	for object, operations := range forbiddenPatches {
		for _, operation := range operations {
			if err := rejected(object, operation); err != nil {
				i.Error(err)
			}
		}
	}
	ca := base64.StdEncoding.EncodeToString([]byte(i.Must("", "get", "configmap", "kube-root-ca.crt", "-n", "default", "-o", `jsonpath={.data.ca\.crt}`)))
	for object, path := range caBundles {
		if err := i.tryAsManager(object, `{"op":"add","path":"`+path+`","value":"`+ca+`"}`); (err == nil) != bundles {
			i.Errorf("the CA bundle of %s: %v", object, err)
		}
	}
}
