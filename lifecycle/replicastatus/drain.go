package replicastatus

import "time"

// settlePeriod is the time that kubelets, endpoint controllers and proxies may take to route
// requests to a replica that reports that it serves.
const settlePeriod = 5 * time.Second

// An Other is another replica that is live.
type Other struct {
	Phase Phase
	// Since is how long the replica has been in this phase, as far as that was observed.
	Since time.Duration
	// Renewed says that the replica has renewed its Lease since it was first observed.
	Renewed bool
}

// A Deployment says whether the Deployment of a replica wants replicas.
type Deployment int

// Deployments.
const (
	// DeploymentUnknown is for one that could not be read.
	DeploymentUnknown Deployment = iota
	// DeploymentWanted is for one that starts a successor.
	DeploymentWanted
	// DeploymentUnwanted is for one that is deleted or scaled to 0.
	DeploymentUnwanted
)

// A Drain is what a replica knows after it was asked to stop.
type Drain struct {
	// Elapsed is the time since it was asked.
	Elapsed time.Duration
	// Delay is how long it serves at least, and Timeout how long at most.
	Delay, Timeout time.Duration
	// Deployment is that of the replica.
	Deployment Deployment
	// Others are the other replicas that are live.
	Others []Other
}

// Reasons to stop.
const (
	StopSucceeded = "another replica serves"
	StopUnwanted  = "the Deployment is deleted or scaled to 0"
	StopTimedOut  = "timed out waiting for another replica that serves"
)

// Decide returns why the replica may stop now, or "" while it must serve. It may stop when
// another live replica has served for settlePeriod and does not drain. It does not wait for one
// that nothing starts, or beyond its timeout.
func (d Drain) Decide() string {
	switch {
	case d.Elapsed >= d.Timeout:
		return StopTimedOut
	case d.Elapsed < d.Delay:
		return ""
	case d.Deployment == DeploymentUnwanted:
		return StopUnwanted
	}
	for _, o := range d.Others {
		if o.Phase == Serving && o.Renewed && o.Since >= settlePeriod {
			return StopSucceeded
		}
	}
	return ""
}
