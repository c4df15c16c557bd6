package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestDefaults(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !o.has(roleServing) || !o.has(roleControllers) || o.webhookAddress != ":9443" || o.requestMemory != 96<<20 {
		t.Errorf("got %+v", o)
	}
	if e := o.engine(); e.Platform == nil || e.Platform.NoLiveUpdate || e.RejectConflicts {
		t.Error("want platform defaults, live updates, and conflicts that warn")
	}
	if o, err := parse([]string{"--vm-rollout-strategy=Stage"}, io.Discard); err != nil || !o.engine().Platform.NoLiveUpdate {
		t.Errorf("want no live updates: %v", err)
	}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{
		"--mode=addon", "--roles=serving", "--preset-conflicts=reject", "--webhook-bind-address=127.0.0.1:1234",
		"--request-memory=256Mi",
		"--webhook-url=https://192.0.2.1:1234/", "--webhook-service=a/b", "--register-webhooks", "--cert-secret=c/d",
		"--trusted-user=x", "--trusted-user=y", "--log-level=debug", "--log-format=text",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.has(roleControllers) || o.webhookAddress != "127.0.0.1:1234" || o.requestMemory != 256<<20 || o.certSecret != (types.NamespacedName{Namespace: "c", Name: "d"}) {
		t.Errorf("got %+v", o)
	}
	if e := o.engine(); e.Platform != nil || !e.RejectConflicts {
		t.Error("want no platform defaults alongside KubeVirt, and conflicts that reject")
	}
	if diff := cmp.Diff([]string{"x", "y"}, o.trusted); diff != "" {
		t.Errorf("trusted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"192.0.2.1", "b.a", "b.a.svc", "b.a.svc.cluster.local", "localhost"}, o.certificateNames()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestBadFlags(t *testing.T) {
	cases := map[string]string{
		"--mode=other":                          `--mode must be one of ["standalone" "addon"], not "other"`,
		"--roles=serving,other":                 `--roles must be one of`,
		"--preset-conflicts=x":                  `--preset-conflicts must be`,
		"--log-format=x":                        `--log-format must be`,
		"--log-level=x":                         `unknown name`,
		"--max-exception-duration=-1s":          `--max-exception-duration must not be negative: -1s`,
		"--default-network-interface=slirp":     `--default-network-interface must be`,
		"--webhook-bind-address=9443":           `invalid --webhook-bind-address`,
		"--webhook-bind-address=:0":             `requires a port number`,
		"--request-memory=1Mi":                  `must be at least 32Mi`,
		"--request-memory=much":                 `must be an amount of memory such as 96Mi`,
		"--webhook-url=http://a":                `must be https://HOST:PORT`,
		"--webhook-url=https://a/b":             `must be https://HOST:PORT`,
		"--webhook-service=a":                   `must be NAMESPACE/NAME`,
		"--register-webhooks":                   `--register-webhooks requires --webhook-url or --webhook-service`,
		"--serve-v1alpha2":                      `--serve-v1alpha2 requires --register-webhooks`,
		"--webhook-client-ca=/no/file":          `cannot read the certificates: open /no/file`,
		"--webhook-client-ca=options.go":        `must hold at least one PEM certificate`,
		"--webhook-client-name=apiserver":       `--webhook-client-name requires --webhook-client-ca`,
		"--cert-dir=/x --cert-secret=a/b":       `are mutually exclusive`,
		"--cert-duration=8000h":                 `must be at most half of the CA's, 4380h0m0s, not 8000h0m0s`,
		"--cert-duration=2h":                    `the overlap must be at most a quarter of the lifetime of the serving certificate, 30m0s, not 1h0m0s`,
		"--cert-duration=8s --cert-overlap=1s":  `the overlap must be at least 4s, not 1s`,
		"--cert-overlap=-1s":                    `must not be negative`,
		"x":                                     `unexpected argument "x"`,
		"--mode=a --preset-conflicts=b":         `--preset-conflicts must be`, // every problem at once
		"--no-such-flag":                        `flag provided but not defined`,
		"--roles= --webhook-bind-address=:9443": `--roles must be one of`,
	}
	for args, want := range cases {
		t.Run(args, func(t *testing.T) {
			_, err := parse(strings.Fields(args), io.Discard)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		})
	}
	if _, err := parse([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("want help, got %v", err)
	}
}

// A replica serves after SIGTERM for a while, or until it may stop.
func TestShutdown(t *testing.T) {
	for name, drain := range map[string]func(context.Context){
		"delay": nil,
		"drain": func(ctx context.Context) { sleep(ctx, 5*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				s := shutdownOn(signals, 5*time.Second)
				if drain != nil {
					s.drain.Store(&drain)
				}
				if s.isDraining() || s.ctx.Err() != nil {
					t.Fatal("want a process that runs")
				}
				signals <- syscall.SIGTERM
				synctest.Wait()
				if !s.isDraining() || s.ctx.Err() != nil {
					t.Error("want a process that drains, and runs")
				}
				if ready := s.check(nil) == nil; ready != (drain != nil) {
					t.Errorf("ready: %t; a pod must be, and a process without one must not", ready)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if s.ctx.Err() == nil {
					t.Error("want stopped")
				}
				signals <- syscall.SIGTERM // nothing is left to stop; ends the goroutine
			})
		})
	}
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	for name, drain := range map[string]func(context.Context){
		"delay": nil,
		"drain": func(ctx context.Context) { sleep(ctx, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				s := shutdownOn(signals, time.Hour)
				if drain != nil {
					s.drain.Store(&drain)
				}
				signals <- syscall.SIGTERM
				signals <- syscall.SIGTERM
				synctest.Wait()
				if s.ctx.Err() == nil {
					t.Error("want stopped")
				}
			})
		})
	}
}
