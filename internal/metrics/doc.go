// Package metrics shows what a process of Weft does as Prometheus metrics.
//
// What happens in the process is counted by the observers of packages fabric and
// worker, which know nothing of Prometheus: a counter's increment for each step of a
// job. What is there, jobs by stage and state, is asked for when somebody scrapes, and
// costs jobs nothing: see Loads.
//
// Every label has few values: stages, states, outcomes, codes, actions. No job, key or
// worker is one, so the number of series does not grow with what is run.
package metrics
