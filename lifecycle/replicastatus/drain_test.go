package replicastatus

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const delay, timeout = 10 * time.Second, 60 * time.Second
	serving := Other{Phase: Serving, Since: time.Minute, Renewed: true}
	draining, starting := serving, serving
	draining.Phase, starting.Phase = Draining, Starting
	recent, silent := serving, serving
	recent.Since, silent.Renewed = settlePeriod-time.Second, false
	settled := serving
	settled.Since = settlePeriod
	tests := map[string]struct {
		reason     string
		elapsed    time.Duration
		deployment Deployment
		others     []Other
		want       string
	}{
		"rollout":              {"another replica serves", delay, DeploymentWanted, []Other{serving, draining}, stopSucceeded},
		"before the delay":     {"proxies still route here", delay - 1, DeploymentWanted, []Other{serving}, ""},
		"no delay":             {"the delay is a minimum", delay + 1, DeploymentWanted, []Other{serving}, stopSucceeded},
		"alone":                {"there is no other replica", delay, DeploymentWanted, nil, ""},
		"all at once":          {"the others drain, too", delay, DeploymentWanted, []Other{draining, draining}, ""},
		"successor starts":     {"it is not ready", delay, DeploymentWanted, []Other{draining, starting}, ""},
		"successor is recent":  {"proxies do not know it", delay, DeploymentWanted, []Other{recent}, ""},
		"successor settled":    {"proxies know it", delay, DeploymentWanted, []Other{draining, settled}, stopSucceeded},
		"Lease without change": {"the replica may have ended", delay, DeploymentWanted, []Other{silent}, ""},
		"deleted":              {"nothing starts a successor", delay, DeploymentUnwanted, nil, stopUnwanted},
		"deleted, at once":     {"requests may still come", 0, DeploymentUnwanted, nil, ""},
		"unknown":              {"an API server that restarts says nothing", delay, DeploymentUnknown, nil, ""},
		"unknown, serving":     {"the Lease is enough", delay, DeploymentUnknown, []Other{serving}, stopSucceeded},
		"timeout":              {"the pod is killed soon", timeout, DeploymentWanted, []Other{starting}, stopTimedOut},
		"just before":          {"there is time left", timeout - 1, DeploymentWanted, []Other{starting}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Drain{Elapsed: tc.elapsed, Delay: delay, Timeout: timeout, Deployment: tc.deployment, Others: tc.others}
			if got := d.Decide(); got != tc.want {
				t.Errorf("want %q, got %q: %s", tc.want, got, tc.reason)
			}
		})
	}
}

// A replica stops no later than its timeout, and without a successor no sooner unless the
// Deployment wants none.
func TestDecideEverything(t *testing.T) {
	const delay, timeout = 10 * time.Second, 60 * time.Second
	times := []time.Duration{0, settlePeriod, delay, timeout - 1, timeout, time.Hour}
	others := [][]Other{nil}
	for _, phase := range []Phase{Starting, Serving, Draining} {
		for _, since := range times {
			for _, renewed := range []bool{false, true} {
				others = append(others, []Other{{phase, since, renewed}})
			}
		}
	}
	for _, elapsed := range times {
		for _, deployment := range []Deployment{DeploymentUnknown, DeploymentWanted, DeploymentUnwanted} {
			for _, first := range others {
				for _, second := range others {
					both := append(append([]Other{}, first...), second...)
					succeeded := false
					for _, o := range both {
						succeeded = succeeded || o.Phase == Serving && o.Since >= settlePeriod && o.Renewed
					}
					stop := Drain{elapsed, delay, timeout, deployment, both}.Decide() != ""
					want := elapsed >= timeout || elapsed >= delay && (succeeded || deployment == DeploymentUnwanted)
					if stop != want {
						t.Fatalf("stops %t, want %t after %s, Deployment %d, others %+v", stop, want, elapsed, deployment, both)
					}
				}
			}
		}
	}
}
