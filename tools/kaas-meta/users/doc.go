// Package users changes who may get into a cluster, on its volume and without a broker: so that
// a first administrator is there before the first broker starts, or again when nobody can
// log in any more.
//
// # What happens
//
// As with any change, the cluster stream is claimed above all its epochs, what is decided is
// published in an entry of the claim, and a closed entry follows, so that the next owner need
// not seal. A controller that runs is fenced by the claim, as by that of another controller,
// and the next one takes the change up; nothing else of its broker is. That nothing is to be
// changed is found out in the same way: a host may see for half a minute what another has
// replaced, and would call somebody nobody who was added elsewhere, and has to go. A volume that
// has no cluster stream gets one, as from its first broker.
//
// What has failed may have happened. It is looked at again, and done again where it is not so
// (rule 2).
package users
