package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestPowerUsage(t *testing.T) {
	nowhere := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\n"+
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no name":                {[]string{"start"}, "cannot start 0 machines"},
		"two names":              {[]string{"stop", "a", "b"}, "cannot stop 2 machines"},
		"force alone":            {[]string{"stop", "a", "--force"}, "Must both use --force=true and set --grace-period."},
		"grace alone":            {[]string{"restart", "a", "--grace-period", "0"}, "Must both use --force=true and set --grace-period."},
		"less than nothing":      {[]string{"stop", "a", "--grace-period=-5"}, "cannot leave the guest -5 seconds: --grace-period must be 0 or more"},
		"less, by force":         {[]string{"restart", "a", "--force", "--grace-period=-1"}, "cannot leave the guest -1 seconds"},
		"nothing to wait for":    {[]string{"start", "a", "--dry-run", "--wait"}, "give --wait or --dry-run"},
		"no time":                {[]string{"start", "a", "--wait", "--timeout", "0s"}, "--timeout must be longer than 0"},
		"start does not force":   {[]string{"start", "a", "--force"}, "unknown flag: --force (see virtwright start --help)"},
		"stop does not pause":    {[]string{"stop", "a", "--paused"}, "unknown flag: --paused"},
		"no kubeconfig":          {[]string{"start", "a", "--kubeconfig", "/does/not/exist"}, "cannot tell which cluster to ask: stat /does/not/exist"},
		"no such context":        {[]string{"start", "a", "--kubeconfig", nowhere, "--context", "x"}, `context "x" does not exist`},
		"a cluster that is gone": {[]string{"start", "a", "--kubeconfig", nowhere}, "cannot start VM default/a: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := call(t, "", test.args...)
			if got.code != exitUsage || got.out != "" {
				t.Errorf("exit code %d, output %q", got.code, got.out)
			}
			says(t, got.err, test.want)
		})
	}
}

// What is sent is what virtctl sends.
func TestPowerBody(t *testing.T) {
	tests := map[string]struct {
		power power
		want  string
	}{
		"start":          {power{verb: verbStart, grace: -1}, `{}`},
		"start paused":   {power{verb: verbStart, grace: -1, paused: true}, `{"paused":true}`},
		"stop":           {power{verb: verbStop, grace: -1}, `{}`},
		"force stop":     {power{verb: verbStop, force: true}, `{"gracePeriod":0}`},
		"restart":        {power{verb: verbRestart, grace: -1, dryRun: true}, `{"dryRun":["All"]}`},
		"force restart":  {power{verb: verbRestart, force: true}, `{"gracePeriodSeconds":0}`},
		"a longer grace": {power{verb: verbStop, force: true, grace: 7}, `{"gracePeriod":7}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.power.body()
			if err != nil || string(got) != test.want {
				t.Errorf("got %s %v, want %s", got, err, test.want)
			}
		})
	}
}

// aSight is a machine of a run strategy and status, with an instance "new" in a
// phase unless that is empty; the instance before was "old".
func aSight(strategy kubevirtv1.VirtualMachineRunStrategy, status, phase string) sight {
	s := sight{vm: &kubevirtv1.VirtualMachine{}, before: "old"}
	s.vm.Spec.RunStrategy = &strategy
	s.vm.Status.PrintableStatus = kubevirtv1.VirtualMachinePrintableStatus(status)
	if phase != "" {
		s.vmi = &kubevirtv1.VirtualMachineInstance{}
		s.vmi.UID, s.vmi.Status.Phase = "new", kubevirtv1.VirtualMachineInstancePhase(phase)
	}
	return s
}

func (s sight) with(change func(*sight)) sight {
	change(&s)
	return s
}

func TestPowerVerdicts(t *testing.T) {
	old := func(s *sight) { s.vmi.UID = "old" }
	asks := func(action kubevirtv1.StateChangeRequestAction) func(*sight) {
		return func(s *sight) {
			s.vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: action}}
		}
	}
	now := metav1.Now()
	tests := map[string]struct {
		power power
		sight sight
		there bool
		never string
	}{
		"starts":                           {power{verb: verbStart}, aSight("Always", "Starting", "Pending"), false, ""},
		"nothing happened yet":             {power{verb: verbStart}, aSight("Always", "Stopped", ""), false, ""},
		"runs":                             {power{verb: verbStart}, aSight("Always", "Running", "Running"), true, ""},
		"runs, not yet said":               {power{verb: verbStart}, aSight("Always", "Starting", "Running"), false, ""},
		"ran, still said":                  {power{verb: verbStart}, aSight("Always", "Running", "Failed"), false, ""},
		"runs, and shall be paused":        {power{verb: verbStart, paused: true}, aSight("Always", "Running", "Running"), false, ""},
		"is paused":                        {power{verb: verbStart, paused: true}, aSight("Always", "Paused", "Running"), true, ""},
		"is paused by its template":        {power{verb: verbStart}, aSight("Always", "Paused", "Running"), true, ""},
		"the one before":                   {power{verb: verbRestart}, aSight("Always", "Running", "Running").with(old), false, ""},
		"restarted":                        {power{verb: verbRestart}, aSight("Always", "Running", "Running"), true, ""},
		"stopped again":                    {power{verb: verbStart}, aSight("Halted", "Stopped", ""), false, "run strategy is Halted"},
		"stopped, before paused":           {power{verb: verbStart, paused: true}, aSight("Halted", "Stopped", ""), false, ""},
		"crashed, manual":                  {power{verb: verbStart}, aSight("Manual", "Stopped", "Failed"), false, "its instance failed before it ran, and run strategy Manual leaves it at that"},
		"crashed, manual, the other":       {power{verb: verbStart}, aSight("Manual", "Stopped", "Failed").with(old), false, ""},
		"crashed, and asked again":         {power{verb: verbStart}, aSight("Manual", "Stopped", "Failed").with(asks("Start")), false, ""},
		"crashed, rerun":                   {power{verb: verbStart}, aSight("RerunOnFailure", "CrashLoopBackOff", "Failed"), false, ""},
		"shut down, rerun":                 {power{verb: verbStart}, aSight("RerunOnFailure", "Stopped", "Succeeded"), false, "its instance shut down, and run strategy RerunOnFailure leaves it at that"},
		"deleted":                          {power{verb: verbStart}, aSight("Always", "Terminating", "Running").with(func(s *sight) { s.vm.DeletionTimestamp = &now }), false, "is being deleted"},
		"stops":                            {power{verb: verbStop}, aSight("Halted", "Stopping", "Running"), false, ""},
		"stopped":                          {power{verb: verbStop}, aSight("Halted", "Stopped", ""), true, ""},
		"stopped, remains":                 {power{verb: verbStop}, aSight("Manual", "Stopped", "Succeeded"), true, ""},
		"said before":                      {power{verb: verbStop}, aSight("Halted", "Stopped", "Running"), false, ""},
		"stopped while volumes are filled": {power{verb: verbStop}, aSight("Halted", "Provisioning", ""), true, ""},
		"stopped, and volumes failed":      {power{verb: verbStop}, aSight("Manual", "DataVolumeError", ""), true, ""},
		"stopped while volumes are bound":  {power{verb: verbStop}, aSight("Halted", "WaitingForVolumeBinding", ""), true, ""},
		"stopped, and received nothing":    {power{verb: verbStop}, aSight("Halted", "WaitingForReceiver", ""), true, ""},
		"stopped, failed before":           {power{verb: verbStop}, aSight("Manual", "Stopped", "Failed"), true, ""},
		"failed, and comes again":          {power{verb: verbStop}, aSight("RerunOnFailure", "Stopped", "Failed"), false, ""},
		"asked, and not done":              {power{verb: verbStop}, aSight("Manual", "DataVolumeError", "").with(asks("Stop")), false, ""},
		"stopped, and somebody asks":       {power{verb: verbStop}, aSight("Manual", "Stopped", "").with(asks("Start")), false, ""},
		"stopped, and somebody starts it":  {power{verb: verbStop}, aSight("Always", "Provisioning", ""), false, "somebody started it: its run strategy is Always"},
		"stopped, and somebody runs it":    {power{verb: verbStop}, aSight("Once", "Running", "Running"), false, "its run strategy is Once"},
		"receives, whatever is asked":      {power{verb: verbStop}, aSight("WaitAsReceiver", "WaitingForReceiver", ""), false, "run strategy WaitAsReceiver is not for stopping"},
		"deleted and stopping":             {power{verb: verbStop}, aSight("Always", "Terminating", "Running").with(func(s *sight) { s.vm.DeletionTimestamp = &now }), false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.power.there(test.sight); got != test.there {
				t.Errorf("there: %t", got)
			}
			if never := test.power.hopeless(test.sight); !strings.Contains(never, test.never) || (never == "") != (test.never == "") {
				t.Errorf("hopeless: %q, want %q", never, test.never)
			}
		})
	}
}

func TestPowerDescribe(t *testing.T) {
	condition := func(of string, status corev1.ConditionStatus, reason, message string) func(*sight) {
		return func(s *sight) {
			s.vm.Status.Conditions = append(s.vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{
				Type: kubevirtv1.VirtualMachineConditionType(of), Status: status, Reason: reason, Message: message,
			})
		}
	}
	notReady := condition("Ready", "False", "GuestNotRunning", "Guest VM is not reported as running")
	retry := metav1.Unix(1782907200, 0)
	failures := func(s *sight) {
		s.vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: 2, RetryAfterTimestamp: &retry}
	}
	tests := map[string]struct {
		sight sight
		want  string
	}{
		"no status":      {aSight("Always", "", ""), "of unknown status (does a lifecycle controller run?)"},
		"stopped":        {aSight("Always", "Stopped", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist")), "Stopped"},
		"fills":          {aSight("Always", "Provisioning", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist: its data volumes are not filled yet")), "Provisioning (Ready is False: VMINotExists: VMI does not exist: its data volumes are not filled yet)"},
		"cannot fill":    {aSight("Always", "DataVolumeError", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist: its data volumes are not filled yet")).with(condition("Failure", "True", "FailedDataVolumeImport", "DataVolume root has failed")), "DataVolumeError (Failure is True: FailedDataVolumeImport: DataVolume root has failed)"},
		"starting":       {aSight("Always", "Starting", "Pending").with(notReady), "Starting (Ready is False: GuestNotRunning: Guest VM is not reported as running)"},
		"ready":          {aSight("Always", "Migrating", "Running").with(condition("Ready", "True", "", "")), "Migrating"},
		"unschedulable":  {aSight("Always", "ErrorUnschedulable", "Scheduling").with(notReady).with(condition("PodScheduled", "False", "Unschedulable", "no node")), "ErrorUnschedulable (PodScheduled is False: Unschedulable: no node)"},
		"cannot create":  {aSight("Always", "Stopped", "").with(notReady).with(condition("Failure", "True", "FailedCreate", "quota")), "Stopped (Failure is True: FailedCreate: quota)"},
		"backs off":      {aSight("Always", "CrashLoopBackOff", "").with(failures), "CrashLoopBackOff (starts that ended early: 2, next after 2026-07-01T12:00:00Z)"},
		"backed off":     {aSight("Always", "Starting", "Pending").with(failures).with(notReady), "Starting (Ready is False: GuestNotRunning: Guest VM is not reported as running)"},
		"failed before":  {aSight("Always", "Starting", "Pending").with(condition("Failure", "False", "", "")), "Starting"},
		"not in its way": {aSight("Always", "Starting", "Pending").with(condition("LiveMigratable", "False", "x", "y")), "Starting"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.sight.describe(false); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
	if got := aSight("Always", "Running", "Running").with(notReady).describe(true); got != "Running" {
		t.Errorf("done: %s", got)
	}
}

func TestPowerMeanwhile(t *testing.T) {
	is := func(running bool) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Running: &running}}
	}
	strategy := func(s kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &s}}
	}
	patch := func(field string) string {
		return "kubectl patch vm web -n shop --type merge -p '{\"spec\":{" + field + "}}'"
	}
	for name, test := range map[string]struct {
		verb string
		vm   *kubevirtv1.VirtualMachine
		want string
	}{
		"start, running":    {verbStart, is(false), patch(`"running":true`)},
		"stop, running":     {verbStop, is(true), patch(`"running":false`)},
		"start, strategy":   {verbStart, strategy("Halted"), patch(`"runStrategy":"Always"`)},
		"stop, strategy":    {verbStop, strategy("Manual"), patch(`"runStrategy":"Halted"`)},
		"starts anyway":     {verbStart, is(true), ""},
		"restart":           {verbRestart, is(true), "kubectl delete vmi web -n shop"},
		"restart by itself": {verbRestart, strategy("Manual"), ""},
		"unknown":           {verbStart, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.vm != nil {
				test.vm.Name, test.vm.UID = "web", types.UID("u")
			}
			p := power{verb: test.verb}
			if got := p.meanwhile("shop", test.vm); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}
