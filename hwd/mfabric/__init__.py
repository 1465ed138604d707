"""mFabric (MixNet): from the demand of an expert all-to-all to optical links and NIC ports. Pure: no clock, no I/O."""
